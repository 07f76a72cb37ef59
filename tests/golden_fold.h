// SPDX-License-Identifier: MIT
// Leaves out of emitted text what tells nothing to a reader of its changes: many lines in a row that stand in a
// template to the letter, and lines that come again with other numbers, of which a hash stays, so that no change goes
// unseen.
#ifndef KM_TESTS_GOLDEN_FOLD_H
#define KM_TESTS_GOLDEN_FOLD_H

// A text of its own, to be freed; NULL: no memory.
char *golden_fold(const char *text);

#endif
