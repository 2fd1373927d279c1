#!/usr/bin/env python3
"""python-api.py FOLDER: the Python package's API as one page of Markdown, from its type stubs and sources in FOLDER.

Without FOLDER the page says how to build them.
"""

import ast
import pathlib
import re
import sys

MODULES = ("", "layers", "nets", "data", "optim", "metrics")  # modules of keelson


def escaped(found):
    """Escapes a character that has a meaning in Markdown or for Doxygen; code is not changed."""
    return found[0] if found[0].startswith("`") else "\\" + found[0]


def text_of(node):
    """The docstring as Markdown: indented parts, which are code, are not changed."""
    lines = (ast.get_docstring(node) or "").splitlines()
    return "\n".join(line if line.startswith("    ") else re.sub(r"`[^`]*`|[<>@#&\\*_]", escaped, line) for line in lines)


def is_public(node):
    return not node.name.startswith("_") and not any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)


def signature(function, name):
    arguments = re.sub(r"^self(, /)?(, )?", "", ast.unparse(function.args))
    if any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list):
        return name
    returns = f" -> {ast.unparse(function.returns)}" if function.returns and name == function.name else ""
    return f"{name}({arguments}){returns}"


def write_function(function, name):
    print(f"```py\n{signature(function, name)}\n```\n\n{text_of(function)}\n")


def write_class(node, module):
    print(f"## {module}{node.name}\n\n{text_of(node)}\n")
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            write_function(member, node.name)
        elif isinstance(member, ast.FunctionDef) and is_public(member):
            write_function(member, member.name)


def definitions(file):
    return [node for node in ast.parse(file.read_text()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and is_public(node)]


def main():
    print("# Python API {#python_api}\n")
    package = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else None
    if not package or not package.is_dir():
        print("This page is made from the Python package, which has not been built: `./dev python`, then `./dev docs`.")
        return
    print("[The guide](../../docs/python.md) shows how to use it; `help(keelson.Trainer)` shows the same text as this page.\n")
    for module in MODULES:
        own = ("_estimators", "_search", "_predictor", "_ensemble", "_onnx/network", "_progress", "_errors", "_callback")
        own = (module,) if module else own
        files = [package / f"{name}.py" for name in own]
        files += [package / "_engine" / f"{module or '__init__'}.pyi"]
        prefix = f"keelson.{module}." if module else "keelson."
        print(f"# {prefix[:-1]}\n")
        for node in (n for file in files if file.is_file() for n in definitions(file)):
            if isinstance(node, ast.ClassDef):
                write_class(node, prefix)
            else:
                print(f"## {prefix}{node.name}\n")
                write_function(node, node.name)


main()
