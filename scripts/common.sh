# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts: where the project is, what it needs, and how that is installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export LC_ALL=C

say() { printf '%s\n' "$*" >&2; }

# The files that are the project's: of a clone what git has or would take, else all but what is made here.
project_files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard
    else # a released tree
        find . -type f -printf '%P\n' | grep -vE '^(build|demo/|env/|\.git/)'
    fi
}

# What a build needs, found by what it does rather than by a package's name: "KIND NAME PACKAGE".
# apt packages of Debian 12 and Ubuntu 22.04 or newer.
build_needs='
command cc gcc
command meson meson
command ninja ninja-build
command pkg-config pkg-config
header stdio.h libc6-dev
header omp.h gcc
header csv.h libcsv-dev
module yaml-0.1 libyaml-dev
module jansson libjansson-dev
module zlib zlib1g-dev
module libarchive libarchive-dev
module hdf5 libhdf5-dev
module libxxhash libxxhash-dev
module cairo libcairo2-dev
module check check
'

# Options of meson, one a line, by which a release has kernels of GPUs (docs/design.md, "The cache"): of these
# architectures, or "none". Their compiler is NVRTC from PyPI in this version, which needs no GPU, and whose kernels
# drivers from CUDA 12 on take. Each architecture takes 4 minutes of a processor, and 8 MB.
cuda_all=80,86,89,90,100,120
cuda_options() { # FOLDER-FOR-NVRTC ARCHITECTURES
    local folder=$1 package=nvidia-cuda-nvrtc-cu12 version=12.9.86
    if [ "$2" != none ] && [ "$(cat "$folder/version" 2>/dev/null)" != "$package $version" ]; then
        say "fetching NVRTC $version from PyPI"
        rm -rf "$folder"
        python3 -m pip install --quiet --no-deps --target "$folder" "$package==$version" >&2 || {
            say "without it kernels of GPUs are left out; --cuda none does that at once"
            return 1
        }
        echo "$package $version" >"$folder/version"
    fi
    if [ "$2" = none ]; then
        echo -Dprebuilt_cuda=
    else
        printf '%s\n' "-Dprebuilt_cuda=$2" "-Dprebuilt_cuda_nvrtc=$folder"
    fi
}

has() { # KIND NAME
    case $1 in
        command) command -v "$2" ;;
        module) pkg-config --exists "$2" ;;
        python) python3 -c "import $2" ;;
        clang) [ -f "$(clang -print-resource-dir)/$2" ] || [ -f "$(clang -print-file-name="$2")" ] ;;
        header) printf '#include <%s>\nint main(void) { return 0; }\n' "$2" | cc -fopenmp -xc -fsyntax-only - ;;
    esac >/dev/null 2>&1
}

missing() { # NEEDS...: the lines of what is not there
    local kind name package
    while read -r kind name package; do
        [ -z "$kind" ] || has "$kind" "$name" || printf '%s %s %s\n' "$kind" "$name" "$package"
    done <<<"$1"
}

# Installs what is missing by apt, as root or with sudo; elsewhere says what is missing and stops.
install_missing() { # NEEDS
    local lack packages sudo=
    lack=$(missing "$1")
    [ -n "$lack" ] || return 0
    packages=$(awk '{ print $3 }' <<<"$lack" | sort -u | tr '\n' ' ')
    if ! command -v apt-get >/dev/null; then
        say "missing, and there is no apt to install it with (names as on Debian): $packages"
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "missing: $packages"
            say "run as root: apt-get install $packages"
            exit 1
        fi
        sudo=sudo
    fi
    say "installing: $packages"
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
    lack=$(missing "$1")
    [ -z "$lack" ] || { say "still missing after installing:"; say "$lack"; exit 1; }
}

# A build folder with these meson options, made or brought up to date.
build() { # FOLDER "TARGET..." OPTIONS...
    local folder=$1 target=$2
    shift 2
    if [ -f "$folder/build.ninja" ]; then
        meson configure "$folder" "$@" >/dev/null
    else
        meson setup "$folder" "$@" >/dev/null || { cat "$folder/meson-logs/meson-log.txt" >&2; exit 1; }
    fi
    say "building in $folder/"
    # shellcheck disable=SC2086 # words
    ninja -C "$folder" $target >"$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log" >&2; exit 1; }
}
