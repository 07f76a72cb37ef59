// Of the text of {features: 2, clusters: "1000, 4096", target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 73 definitions
// ... lines of a template
        if (writes_weight) to[D] = (double)(position - current.first);
    };
    km_label_sums current = {};
    current.first = begin;
    current.label = labels[order[begin]];
    if (writes_weight)
        km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, current.label, begin);
    for (long long at = begin; at < end; at += SUM_AHEAD) {
        km_features x[SUM_AHEAD];
        int label[SUM_AHEAD];
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            const long long point = order[at + a < end ? at + a : at];
            label[a] = labels[point];
            x[a] = {};
            if (f < D) x[a] = *(const km_features *)((const km_real *)args.points + point * D + f);
        }
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            if (at + a >= end) break;
            if (label[a] != current.label) {
                write_sums(current, at + a);
                if (writes_weight) km_begin_clusters(sorting, current.label + 1, label[a], at + a);
                current = {};
                current.first = at + a;
                current.label = label[a];
            }
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) current.sums[i] += x[a].at[i];
        }
    }
    write_sums(current, end);
    if (writes_weight && end == args.n) km_begin_clusters(sorting, current.label + 1, km_ks[slot % KS], end);
}

// ... 2 definitions
