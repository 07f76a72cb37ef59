// Of the text of {features: 64, clusters: 1000, target: cuda:sm_80} weighted: Seeding of many picks
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 11 definitions
// ... lines of a template
                if (point < args.n) sum = __dadd_rn(sum, __dmul_rn(km_weight(args.weights, point), left));
            // ... lines of a template
