#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What programs are built against: every function, struct and constant of the public headers, with sizes and offsets,
beside what is written down of this version of the interface (tests/abi/VERSION.txt).

    tests/abi.py check|write COMPILER SOURCE_INCLUDE BUILD_INCLUDE RECORDS ABI_VERSION

check: 1 where a line has changed or gone, which needs another version (docs/release.md), or one has come that is not
written down; 77 where sizes are not those of 64-bit Unix. write: writes the record anew, of a released version (its
first line) only what has come."""

import os
import re
import subprocess
import sys
import tempfile

UNRELEASED = "# not released"
LINE = re.compile(r'# \d+ "([^"]*)"')


def preprocessed(compiler, folders, headers):
    """The headers' own text, without comments, one space between words."""
    text = "".join(f"#include <kmgen/{header}>\n" for header in headers)
    command = [*compiler, "-E", "-x", "c", "-", *(f"-I{folder}" for folder in folders)]
    own, is_own = [], False
    for line in subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines():
        mark = LINE.match(line)
        if mark:
            is_own = "/kmgen/" in mark[1]
        elif is_own:
            own.append(line)
    return re.sub(r"\s+", " ", re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", "", " ".join(own)))


def declarations(text):
    """Split at each semicolon that is in no braces."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield text[start:at].strip()
            start = at + 1


def fields_of(body):
    """The names of what is in a struct."""
    for declaration in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", declaration)
        if function:
            yield function[1]
            continue
        for declarator in re.sub(r"\[[^]]*\]", "", declaration).split(","):
            if declarator.strip():
                yield re.findall(r"\w+", declarator)[-1]


def measure(compiler, folders, headers, structs, constants):
    """Sizes, offsets and values, as the compiler has them."""
    lines = [f"#include <kmgen/{header}>" for header in headers]
    lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    lines += ['printf("%d\\n", (int)sizeof(void *));']
    for name, fields in structs.items():
        lines += [f'printf("%d", (int)sizeof({name}));']
        lines += [f'printf(" %d", (int)offsetof({name}, {field}));' for field in fields]
        lines += ['printf("\\n");']
    lines += [f'printf("%lld\\n", (long long){name});' for name in constants]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, "return 0; }", ""]))
        subprocess.run([*compiler, *(f"-I{folder}" for folder in folders), "-o", program, source], check=True)
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    if said[0] != "8":
        print("pointers have another size here")
        sys.exit(77)
    return said[1:]


def interface(compiler, folders):
    headers = sorted({name for folder in folders for name in os.listdir(os.path.join(folder, "kmgen"))
                      if name.endswith(".h")})
    functions, opaque, structs, types, constants = [], [], {}, {}, []
    for text in declarations(preprocessed(compiler, folders, headers)):
        enum = re.match(r"(?:typedef )?enum \w* ?\{(.*)\}", text)
        struct = re.match(r"(?:typedef )?struct (\w+) \{(.*)\}", text)
        if enum:
            constants += [word.split("=")[0].strip() for word in enum[1].split(",") if word.strip()]
        elif struct:
            structs[struct[1]] = list(fields_of(struct[2]))
            types[struct[1]] = [" ".join(part.split()) for part in struct[2].split(";") if part.strip()]
        elif text.startswith("typedef"):
            opaque.append(text)
        else:
            functions.append(text.removeprefix("extern ").strip())
    said = iter(measure(compiler, folders, headers, structs, constants))
    lines = sorted(functions) + sorted(opaque)
    for name in structs:
        size, *offsets = next(said).split()
        lines.append(f"struct {name}: {size} bytes: {'; '.join(types[name])}; at {' '.join(offsets)}")
    return lines + [f"{name} = {next(said)}" for name in constants]


def main():
    action, compiler, source, build, records, version = sys.argv[1:]
    path = os.path.join(records, version + ".txt")
    found = interface(compiler.split(), [source, build])
    known = [UNRELEASED]
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = file.read().splitlines()
    state = known.pop(0)
    if action == "write" and (state == UNRELEASED or set(known) <= set(found)):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([state, *found]) + "\n")
        print(f"{path}: {len(found)} declarations")
        return 0
    gone, came = [line for line in known if line not in found], [line for line in found if line not in known]
    for line in gone:
        print(f"- {line}")
    for line in came:
        print(f"+ {line}")
    print(f"{len(found)} declarations, {len(gone)} changed or gone, {len(came)} new")
    if gone:
        print(f"programs that were built against {version} break: "
              + ("ninja abi writes it down" if state == UNRELEASED else "raise the version (docs/release.md)"))
    elif came:
        print("ninja abi writes down what is new")
    return 1 if gone or came else 0


if __name__ == "__main__":
    sys.exit(main())
