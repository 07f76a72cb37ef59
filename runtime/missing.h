// SPDX-License-Identifier: MIT
// Missing values of a table: refused with their counts, or filled in.
#ifndef KM_RUNTIME_MISSING_H
#define KM_RUNTIME_MISSING_H
#include "read/reader.h"

struct km_share;

// The mean or the median of each column's values that are there: `columns` numbers, the caller's to free. `share`: of a
// table that has the rows of one rank. KM_ERROR_DATA: a column has none.
km_status km_missing_fills(double **out, const km_table *table, const char *file, km_missing mode,
                           struct km_share *share, km_error *err);

// KM_ERROR_DATA with the first missing value's place and the counts of all columns, where text has any that `fill`
// (NULL: none) leaves.
km_status km_missing_refuse(const km_table *table, const char *file, const double *fill, km_error *err);

// "age 20113, income 12": missing values of the columns, cut to fit a sentence, that `fill` (NULL: none) leaves.
km_status km_missing_counts(char **out, const km_table *table, const double *fill, km_error *err);

#endif
