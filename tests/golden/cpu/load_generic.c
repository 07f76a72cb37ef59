// Of the text of prebuilt load generic_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 19 definitions

typedef km_real km_vec __attribute__((vector_size(16)));
typedef km_int km_ints
    __attribute__((vector_size(16))); // as many integers as km_vec has reals, of their size
typedef km_real km_vec_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef km_int km_ints_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
#define KM_LOAD(from) (*(const km_vec_anywhere *)(const void *)(from))
#define KM_STORE(to, x) *(km_vec_anywhere *)(void *)(to) = x
#define KM_SPLAT(value) ((km_vec){value, value, value, value})
#define KM_INTS(value) ((km_ints){value, value, value, value})
// ... lines of a template
// ... lines of a template
// ... lines of a template
#define km_bits km_float_bits
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) KM_F_GATHER(base, index)
// ... lines of a template

// ... 8 definitions
