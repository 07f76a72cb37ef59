// SPDX-License-Identifier: MIT
// Nothing but the numbers of the spec, as constants.
//@ need name d ks
enum { D = $d };
//@ for k in ks
enum { $name_K_$k = $k };
//@ end
