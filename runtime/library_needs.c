// SPDX-License-Identifier: MIT
// Linked with the libraries that are opened when they are first needed (library.h), and never run: what it asks the
// loader for becomes a header of names (scripts/library-files).
#if KM_WITH_CAIRO
#include <cairo.h>
#endif
#if KM_WITH_LIBARCHIVE
#include <archive.h>
#endif
#if KM_WITH_HDF5
#include <hdf5.h>
#endif

__attribute__((visibility("default"))) void km_library_needs(void);
void km_library_needs(void) {
#if KM_WITH_CAIRO
    cairo_version();
#endif
#if KM_WITH_LIBARCHIVE
    archive_version_number();
#endif
#if KM_WITH_HDF5
    H5open();
#endif
}
