// SPDX-License-Identifier: MIT
// Where a device's own tuning table lies.
#include "../gen/tuning.h"
#include "../gen/yaml_reader.h"
#include "file.h"
#include <kmgen/module.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

km_status km_tuning_read(char **text, char *path, int64_t size, const char *tuning_dir, const char *device,
                         km_target target, km_error *err) {
    char name[KM_TUNING_NAME_MAX];
    int64_t text_size;
    *text = NULL;
    km_tuning_table_name(name, sizeof name, device, target);
    snprintf(path, (size_t)size, "%s/%s.yaml", tuning_dir, name);
    struct stat info;
    if (stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) return KM_OK;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) // a pipe would keep a fit waiting
        return km_fail(err, KM_ERROR_IO, "%s is no file", path);
    KM_TRY(km_file_read(text, &text_size, path, KM_YAML_BYTES_MAX, err));
    if (!memchr(*text, 0, (size_t)text_size)) return KM_OK;
    km_text_free(*text);
    *text = NULL;
    return km_fail(err, KM_ERROR_IO, "%s is no text: it has a zero byte", path);
}
