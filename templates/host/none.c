// SPDX-License-Identifier: MIT
#error "$file has kernels alone, for kmgen fit --source: $why there is no host part"
