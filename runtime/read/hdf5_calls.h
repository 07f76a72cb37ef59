// SPDX-License-Identifier: MIT
// What h5.c takes of HDF5, by its names, variables too; behind km_hdf5_open.
#ifndef KM_RUNTIME_READ_HDF5_CALLS_H
#define KM_RUNTIME_READ_HDF5_CALLS_H
#include "../library.h"
#define H5_USE_110_API
#include <hdf5.h>

#define KM_HDF5_CALLS(X)                                                                                     \
    X(H5check_version)                                                                                       \
    X(H5Dclose)                                                                                              \
    X(H5Dget_space)                                                                                          \
    X(H5Dget_space_status)                                                                                   \
    X(H5Dget_type)                                                                                           \
    X(H5Dopen2)                                                                                              \
    X(H5Dread)                                                                                               \
    X(H5Eget_auto2)                                                                                          \
    X(H5Eset_auto2)                                                                                          \
    X(H5Ewalk2)                                                                                              \
    X(H5Fclose)                                                                                              \
    X(H5Fopen)                                                                                               \
    X(H5open)                                                                                                \
    X(H5Ovisit2)                                                                                             \
    X(H5Sclose)                                                                                              \
    X(H5Screate_simple)                                                                                      \
    X(H5Sget_simple_extent_dims)                                                                             \
    X(H5Sget_simple_extent_ndims)                                                                            \
    X(H5Sselect_hyperslab)                                                                                   \
    X(H5T_NATIVE_DOUBLE_g)                                                                                   \
    X(H5T_NATIVE_FLOAT_g)                                                                                    \
    X(H5T_NATIVE_INT16_g)                                                                                    \
    X(H5T_NATIVE_INT32_g)                                                                                    \
    X(H5T_NATIVE_INT64_g)                                                                                    \
    X(H5T_NATIVE_INT8_g)                                                                                     \
    X(H5T_NATIVE_UINT16_g)                                                                                   \
    X(H5T_NATIVE_UINT32_g)                                                                                   \
    X(H5T_NATIVE_UINT64_g)                                                                                   \
    X(H5T_NATIVE_UINT8_g)                                                                                    \
    X(H5Tclose)                                                                                              \
    X(H5Tget_class)                                                                                          \
    X(H5Tget_sign)                                                                                           \
    X(H5Tget_size)

typedef struct km_hdf5_calls {
    KM_HDF5_CALLS(KM_LIBRARY_POINTER)
} km_hdf5_calls;
extern km_hdf5_calls km_hdf5;

#define H5check_version (*km_hdf5.H5check_version)
#define H5Dclose (*km_hdf5.H5Dclose)
#define H5Dget_space (*km_hdf5.H5Dget_space)
#define H5Dget_space_status (*km_hdf5.H5Dget_space_status)
#define H5Dget_type (*km_hdf5.H5Dget_type)
#define H5Dopen2 (*km_hdf5.H5Dopen2)
#define H5Dread (*km_hdf5.H5Dread)
#define H5Eget_auto2 (*km_hdf5.H5Eget_auto2)
#define H5Eset_auto2 (*km_hdf5.H5Eset_auto2)
#define H5Ewalk2 (*km_hdf5.H5Ewalk2)
#define H5Fclose (*km_hdf5.H5Fclose)
#define H5Fopen (*km_hdf5.H5Fopen)
#define H5open (*km_hdf5.H5open)
#define H5Ovisit2 (*km_hdf5.H5Ovisit2)
#define H5Sclose (*km_hdf5.H5Sclose)
#define H5Screate_simple (*km_hdf5.H5Screate_simple)
#define H5Sget_simple_extent_dims (*km_hdf5.H5Sget_simple_extent_dims)
#define H5Sget_simple_extent_ndims (*km_hdf5.H5Sget_simple_extent_ndims)
#define H5Sselect_hyperslab (*km_hdf5.H5Sselect_hyperslab)
#define H5T_NATIVE_DOUBLE_g (*km_hdf5.H5T_NATIVE_DOUBLE_g)
#define H5T_NATIVE_FLOAT_g (*km_hdf5.H5T_NATIVE_FLOAT_g)
#define H5T_NATIVE_INT16_g (*km_hdf5.H5T_NATIVE_INT16_g)
#define H5T_NATIVE_INT32_g (*km_hdf5.H5T_NATIVE_INT32_g)
#define H5T_NATIVE_INT64_g (*km_hdf5.H5T_NATIVE_INT64_g)
#define H5T_NATIVE_INT8_g (*km_hdf5.H5T_NATIVE_INT8_g)
#define H5T_NATIVE_UINT16_g (*km_hdf5.H5T_NATIVE_UINT16_g)
#define H5T_NATIVE_UINT32_g (*km_hdf5.H5T_NATIVE_UINT32_g)
#define H5T_NATIVE_UINT64_g (*km_hdf5.H5T_NATIVE_UINT64_g)
#define H5T_NATIVE_UINT8_g (*km_hdf5.H5T_NATIVE_UINT8_g)
#define H5Tclose (*km_hdf5.H5Tclose)
#define H5Tget_class (*km_hdf5.H5Tget_class)
#define H5Tget_sign (*km_hdf5.H5Tget_sign)
#define H5Tget_size (*km_hdf5.H5Tget_size)

#endif
