// SPDX-License-Identifier: MIT
// Which tuning table a plan is made with: the one that the user names, the device's own, or none.
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_tuning_is_none(const cli_tuning *tuning) {
    return tuning->path && strcmp(tuning->path, "none") == 0;
}

km_status cli_tuning_read(cli_tuning *tuning, km_error *err) {
    enum { BYTES_MAX = 1 << 20 };
    if (!tuning->path || cli_tuning_is_none(tuning)) return KM_OK;
    FILE *stream = fopen(tuning->path, "rb");
    int reason = errno;
    char *text = stream ? malloc(BYTES_MAX + 1) : NULL;
    if (stream && !text) {
        fclose(stream);
        snprintf(err->text, sizeof err->text, "not enough memory for --tuning %s", tuning->path);
        return KM_ERROR_MEMORY;
    }
    size_t size = text ? fread(text, 1, BYTES_MAX + 1, stream) : 0;
    int is_text = text && !ferror(stream) && size <= BYTES_MAX && !memchr(text, 0, size);
    if (stream) fclose(stream);
    if (!is_text) {
        snprintf(err->text, sizeof err->text, "cannot read --tuning %s: %s", tuning->path,
                 stream ? "it is no text of at most 1 MiB" : strerror(reason));
        free(text);
        return KM_ERROR_IO;
    }
    text[size] = 0;
    tuning->text = text;
    return KM_OK;
}

void cli_tuning_apply(km_plan_params *params, const cli_tuning *tuning) {
    params->tuning = tuning->text;
    params->tuning_name = tuning->path;
    params->untuned = cli_tuning_is_none(tuning);
}

void cli_tuning_find(km_plan_params *params, cli_tuning *own, km_target target) {
    static char path[4200];
    const char *folder = cli_tuning_dir();
    km_error err = {""};
    if (params->tuning || params->untuned || !folder) return;
    if (km_tuning_read(&own->text, path, sizeof path, folder, params->facts->name, target, &err) != KM_OK)
        cli_warning("%s; the tuning table is not used", err.text);
    if (!own->text) return;
    own->path = path;
    params->tuning = own->text;
    params->tuning_name = own->path;
    params->tuning_found = 1;
}

void cli_tuning_clear(cli_tuning *tuning) {
    km_text_free(tuning->text);
    *tuning = (cli_tuning){NULL, NULL};
}
