// SPDX-License-Identifier: MIT
#error "$name.cu has kernels alone, for kmgen fit --source: of points in the layout csr there is no host part"
