#!/bin/sh
# SPDX-License-Identifier: MIT
# The pass of each CUDA design, checked against a reference in double and timed beside a plain read of the same
# points, on the GPU of this machine. usage: bench/cuda_pass.sh KMGEN [WORK_FOLDER]
#
# KMGEN is the built program. Emits a source for each shape, compiles it with nvcc and runs cuda_pass.cu on all.
set -eu
kmgen=$1
work=${2:-cuda_pass.work}
here=$(cd "$(dirname "$0")" && pwd)
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
mkdir -p "$work"
nvcc -O2 -std=c++17 -arch="sm_$arch" -o "$work/cuda_pass" "$here/cuda_pass.cu" -lcuda

# features, clusters, type, largest share of a plain read that the shape may take (0: only reported)
while read -r d clusters type bar; do
    name=d${d}_$(echo "$clusters" | sed 's/\.\./_/')_$type
    printf 'name: %s\nfeatures: %s\nclusters: %s\ntype: %s\ntarget: cuda:sm_%s\n' \
        "$name" "$d" "$clusters" "$type" "$arch" >"$work/$name.yaml"
    "$kmgen" emit "$work/$name.yaml" -o "$work" >/dev/null
    nvcc -arch="sm_$arch" -cubin -o "$work/$name.cubin" "$work/$name.cu"
    echo "$name $work/$name.cubin $d $clusters $type $bar"
done >"$work/shapes" <<'SHAPES'
4 3..5 float32 1.25
8 3..5 float32 1.15
16 3..5 float32 1.15
32 3..5 float32 1.3
4 3..7 float32 2.2
8 3..7 float32 1.5
16 3..7 float32 1.3
4 3..12 float32 4.0
8 3..12 float32 3.0
16 3..12 float32 2.8
4 2..20 float32 15
8 2..20 float32 12
2 2..12 float32 0
3 2..12 float32 0
18 2..12 float32 0
4 3..7 float64 0
8 3..7 float64 0
SHAPES
"$work/cuda_pass" "$work/shapes"
