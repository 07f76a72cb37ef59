// SPDX-License-Identifier: MIT
// Subsets of columns: threads, shared memory and tile of each pair of a size and a K. Measured on an H200 (5,000,000
// points of 18 columns, 10,000 runs of 3 columns, K = 8, float32): sums in shared memory, a row a cluster and lane,
// 118 ms a pass; sums in registers, each added where its cluster is the label, 157 ms.
#include "subsets.h"
#include "../../base/size.h"
#include "../source.h"
#include "../template.h"
#include "common.h"
#include <stdio.h>
#include <string.h>

enum {
    TILE_POINTS = 64,      // at most: what may be read behind the last point (KM_PAD_ROWS)
    TILE_BYTES = 16 << 10, // at most, of two tiles each
    REGISTER_BYTES = 512,  // of centroids in registers, at most
    OTHER_REGISTERS = 48,  // of a thread, beside centroids ...
    LAST_REGISTERS = 56,   // ... and in the last pass, where no compiler spills then
    BLOCK = 128,           // threads, or fewer where shared memory says so
    BLOCK_MIN = 4,         // a part of a warp, where a run has very many centroids
    RESERVED_BYTES = 1024  // of shared memory that CUDA takes for itself, a block
};

typedef struct shape {
    int64_t c, k, real, tile_bytes;
    int weighted;
} shape;

static int64_t tile_points(const km_plan *table) {
    int64_t points = TILE_POINTS, row = table->spec.features * km_type_bytes(table->spec.type);
    while (points > 1 && points * row > TILE_BYTES) points /= 2;
    return points;
}

// Bytes of two tiles, with weights (struct subset_tile).
static int64_t tiles_bytes(const km_plan *table) {
    int64_t points = tile_points(table), real = km_type_bytes(table->spec.type);
    int64_t weights = table->weighted ? points : 1;
    return 2 * km_round_up((points * table->spec.features + weights) * real, 16);
}

// Bytes of a row of `numbers` of one cluster and thread (struct subset_rows).
static int64_t row_bytes(int64_t numbers, int64_t real) {
    int64_t width = 16 / real, vectors = (numbers + 1) / width;
    return vectors * 16 + (numbers > vectors * width ? (numbers - vectors * width) * real : 0);
}

static int64_t pass_bytes(const shape *s, int64_t threads) {
    return s->tile_bytes + 2 * s->k * row_bytes(s->c + 1, s->real) * threads;
}

static int64_t finish_bytes(const shape *s, int64_t threads) {
    int64_t sums = row_bytes(s->c + 1 + s->weighted, s->real), centroid = row_bytes(s->c + 1, s->real);
    return s->tile_bytes + s->k * (sums + centroid) * threads;
}

// The most threads of a block that shared memory holds; 0: none. `values`: bytes of a cluster and thread more.
static int64_t threads_of(const shape *s, int64_t (*bytes)(const shape *s, int64_t threads), int64_t values,
                          const km_plan *table) {
    int64_t threads = BLOCK;
    while (threads >= BLOCK_MIN &&
           bytes(s, threads) + values * s->k * threads > table->facts.shared_bytes_per_block)
        threads /= 2;
    return threads >= BLOCK_MIN ? threads : 0;
}

// Blocks a multiprocessor that shared memory and registers hold, of a kernel that has up to `held` bytes of centroids
// in registers beside `other` ones.
static int64_t blocks_of(const shape *s, int64_t threads, int64_t bytes, int64_t held, int64_t other,
                         const km_plan *table) {
    int64_t centroids = s->k * (s->c + 1) * s->real;
    int64_t registers = other + (centroids > held ? 0 : centroids / 4) + 8 * s->c * s->real / 4;
    int64_t by_registers =
        table->facts.registers_per_unit / (threads * km_min(km_round_up(registers, 8), 255));
    int64_t by_shared = table->facts.shared_bytes_per_unit / (bytes + RESERVED_BYTES);
    return km_max(km_min(by_registers, by_shared), 1);
}

static km_status name_shape(km_env *env, const shape *s, const km_plan *table, km_error *err) {
    const int64_t value_bytes = 16; // sums of the outcome, of a cluster and thread
    int64_t pass = threads_of(s, pass_bytes, 0, table),
            finish = threads_of(s, finish_bytes, value_bytes, table);
    if (!pass || !finish)
        return km_fail(err, KM_ERROR_PLAN,
                       "K = %lld with subsets of %lld columns needs more shared memory than this GPU has; "
                       "choose fewer, or the CPU (-t cpu)",
                       (long long)s->k, (long long)s->c);
    km_env *item = km_env_item(env, "shapes", "");
    km_env_set_int(item, "c", s->c);
    km_env_set_int(item, "k", s->k);
    km_env_set_int(item, "pass_block", pass);
    km_env_set_int(item, "pass_blocks",
                   blocks_of(s, pass, pass_bytes(s, pass), REGISTER_BYTES, OTHER_REGISTERS, table));
    km_env_set_int(item, "pass_bytes", pass_bytes(s, pass));
    km_env_set_int(item, "finish_block", finish);
    km_env_set_int(item, "finish_blocks",
                   blocks_of(s, finish, finish_bytes(s, finish), REGISTER_BYTES / 2, LAST_REGISTERS, table));
    km_env_set_int(item, "finish_bytes", finish_bytes(s, finish));
    return KM_OK;
}

static km_status name_shapes(km_env *env, const km_plan *table, const km_subset_shapes *shapes,
                             km_error *err) {
    int64_t real = km_type_bytes(table->spec.type);
    km_env_set(env, "type", table->spec.type == KM_FLOAT64 ? "double" : "float");
    km_env_set_flag(env, "float64", table->spec.type == KM_FLOAT64);
    km_env_set_flag(env, "weighted", table->weighted);
    km_env_set_int(env, "d", table->spec.features);
    km_env_set_int(env, "tile_points", tile_points(table));
    km_env_set_int(env, "register_bytes", REGISTER_BYTES);
    km_env_list(env, "shapes");
    for (int64_t i = 0; i < shapes->sizes_count; i++)
        for (int64_t q = 0; q < shapes->clusters_count; q++) {
            shape s = {shapes->sizes[i], shapes->clusters[q], real, tiles_bytes(table), table->weighted};
            KM_TRY(name_shape(env, &s, table, err));
        }
    return KM_OK;
}

km_status km_subsets_emit(km_source *source, const km_plan *table, const km_subset_shapes *shapes,
                          const char *templates_dir, km_error *err) {
    km_text text = {0};
    km_status status;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    km_source_clear(source);
    KM_TRY_GOTO(km_plan_copy(&source->plan, table, err));
    KM_TRY_GOTO(name_shapes(env, table, shapes, err));
    KM_TRY_GOTO(km_source_expand(&text, "cuda/subsets/subsets.cu", env, templates_dir, err));
    snprintf(source->file_name, sizeof source->file_name, "subsets.cu");
    source->text_size = text.size;
    KM_TRY_GOTO(km_text_take(&source->text, &text, err));
done:
    km_text_clear(&text);
    km_env_destroy(&env);
    return status;
}
