#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kmgen-mpi on two hosts: network namespaces, each with a name and an address of its own, and TCP between them alone.
# The launcher starts what is to run there by a script in the place of ssh. No root is needed, and nothing is left: all
# lies in a user namespace. Skips, with what failed, where the system lets nobody make one.
# Usage: ranks_hosts.sh KMGEN SOURCE_ROOT [KMGEN_MPI]
mpirun=${KMGEN_MPIRUN:-mpirun}
[ -n "${3:-}" ] && command -v "$mpirun" >/dev/null || exit 77 # built without MPI
if [ -z "${KMGEN_HOSTS:-}" ]; then
    if ! why=$(unshare -Urnm true 2>&1) || ! why=$(command -v ip); then
        echo "skipped: ${why:-no ip (of iproute2)}"
        exit 77
    fi
    KMGEN_HOSTS=1 exec unshare -Urnm "$0" "$@"
fi
kmgen_mpi=$(realpath "$3")
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMP_NUM_THREADS
mount -t tmpfs none /run && ip link add eth1 type veth peer name eth2 || exit 77
for i in 1 2; do
    echo "10.77.0.$i host$i"
    ip netns add "host$i" && ip link set "eth$i" netns "host$i" || exit 77
    ip -n "host$i" link set lo up
    ip -n "host$i" link set "eth$i" name eth0
    ip -n "host$i" addr add "10.77.0.$i/24" dev eth0
    ip -n "host$i" link set eth0 up
done >hosts
mount --bind hosts /etc/hosts
cat >agent <<'AGENT' # as ssh is called: options, a host, a command
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; exec $*"
AGENT
chmod +x agent
launch=(./agent host1 "$mpirun")
if "$mpirun" --version 2>/dev/null | grep -q 'Open MPI'; then
    # shellcheck disable=SC2054 # its commas
    launch+=(--mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca btl_tcp_if_include eth0
        --mca oob_tcp_if_include eth0 --map-by node --bind-to none --host host1:2,host2:2)
else
    export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 # else by memory that processes of one machine share
    # shellcheck disable=SC2054
    launch+=(-launcher ssh -launcher-exec "$work/agent" -iface eth0 -hosts host1,host2)
fi
received() { ip netns exec host2 cat /sys/class/net/eth0/statistics/rx_bytes; }
digest() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["digest"])' "$1"; }
points x.f32 200011 4
fit=(fit --features 4 -k '2..6' --n-init 4 x.f32 --json)
run "${fit[@]}" one.json --labels one.npy --target cpu --algorithm lloyd
expect 'one process' [ "$status" = 0 ]
before=$(received)
timeout 200 "${launch[@]}" -n 4 "$kmgen_mpi" "${fit[@]}" many.json --labels many.npy --threads 1 \
    >stdout 2>stderr </dev/null
status=$?
bytes=$(($(received) - before))
expect 'four ranks on two hosts' [ "$status" = 0 ]
expect 'four ranks on two hosts: another digest' [ "$(digest one.json)" = "$(digest many.json)" ]
expect 'four ranks on two hosts: other labels' cmp -s one.npy many.npy
expect "their sums go over the network: $bytes bytes" [ "$bytes" -gt 150000 ]
report
