// SPDX-License-Identifier: MIT
//@ need vectors_list tile_list
//@ for v in vectors_list
km_vec x_$v = KM_LOAD(points + f * SOA_POINTS + $v * LANES);
KM_PIN(x_$v);
//@ end
//@ for c in tile_list
const km_vec c_$c = KM_SPLAT(rows[$c * (D + 1) + f]);
//@ for v in vectors_list
s_$c_$v = KM_FMA(x_$v, c_$c, s_$c_$v);
//@ end
//@ end
