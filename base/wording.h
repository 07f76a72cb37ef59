// SPDX-License-Identifier: MIT
// What sentences call things that the program and the Python package have other names for: options, results, the points
// themselves. A sentence is made with the words of who reads it.
#ifndef KM_BASE_WORDING_H
#define KM_BASE_WORDING_H

// X(name, "the program's words", "Python's words"). %s, once in both or in none: a value.
#define KM_WORDINGS(X)                                                                                       \
    X(POINTS, "memory", "X")                                                                                 \
    X(WEIGHTS, "memory", "sample_weight")                                                                    \
    X(CLUSTERS, "-k %s", "clusters=\"%s\"")                                                                  \
    X(OTHER_K, "take another one with -k", "take another one")                                               \
    X(N_INIT, "--n-init %s", "n_init=%s")                                                                    \
    X(SCALE, "--scale %s", "scale=\"%s\"")                                                                   \
    X(METRIC, "--metric %s", "metric=\"%s\"")                                                                \
    X(ALGORITHM, "--algorithm %s", "algorithm=\"%s\"")                                                       \
    X(LABELS_OF, "--labels-of %s", "labels=\"%s\"")                                                          \
    X(FLOAT32, "--type f32", "dtype=\"float32\"")                                                            \
    X(FLOAT64, "--type f64", "dtype=\"float64\"")                                                            \
    X(CPU, "-t cpu", "device=\"cpu\"")                                                                       \
    X(CRITERIA, "--criteria", "criteria")                                                                    \
    X(DENSE, "use --layout dense", "make it a dense array")                                                  \
    X(SCORES, "--verbose", "criteria_")                                                                      \
    X(PICTURE, "--plot", "plot_clusters")                                                                    \
    X(BY_LABELS, "with --labels", "by labels_")                                                              \
    X(FEWER_FEATURES, "--columns leaves some out", "or leave some of its columns out")                       \
    X(WITHOUT_FEATURE, "see with --columns what the others say without it",                                  \
      "see what the others say without it")                                                                  \
    X(AS_MISSING, ", or write nan in place of what was not measured and give --missing drop", "")            \
    X(MEMORY_MAX, "--memory-max", "memory_max")                                                              \
    X(DEVICE_MEMORY_MAX, "--device-memory-max", "device_memory_max")                                         \
    X(SCRATCH, "--scratch FOLDER", "scratch_dir")                                                            \
    X(NVRTC_FOLDER, " and name its folder with --compiler", "")

typedef enum km_wording {
#define KM_WORDING_ENUM(name, program, python) KM_SAY_##name,
    KM_WORDINGS(KM_WORDING_ENUM)
#undef KM_WORDING_ENUM
        KM_WORDING_COUNT,
} km_wording;

// For the whole process, whose sentences are read by one sort of people: the program's words, as at first, or Python's.
void km_wording_of_python(int wanted);

// Static text, with its %s.
const char *km_say(km_wording wording);

// The same with the value in it, in a buffer of the block that it stands in.
enum { KM_SAY_SIZE = 96 };
#define KM_SAY(name, value) km_say_with((char[KM_SAY_SIZE]){0}, KM_SAY_##name, value)
const char *km_say_with(char buffer[KM_SAY_SIZE], km_wording wording, const char *value);

#endif
