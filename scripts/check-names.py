#!/usr/bin/env python3
"""check-names.py TARGET SOURCE...: refuses sources of a target that define a name twice in their anonymous namespaces.

Instead of the sources, @FILE names a file that has their paths, one in each line.

Several sources are compiled as one translation unit (keelson_unity in cmake/KeelsonTargets.cmake). There, two equal names
are an error of the compiler that comes after minutes, and only if the two sources are in the same unit. This check
takes well under a second and looks at all sources of the target. It also runs where sources are compiled one by one.

Overloads of a function are no conflict: functions are compared with the types of their parameters.
"""

import pathlib
import re
import sys

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*    # comments and the preprocessor's lines: left out
      | R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
      | [A-Za-z_]\w* | \d(?:'?[\w.])* | :: | -> | \S""",
    re.X | re.S | re.M)
PREFIXES = {"inline", "constexpr", "consteval", "constinit", "static", "thread_local", "extern", "const", "volatile", "explicit"}


def tokens_of(text):
    """(token, number of its line) of everything that is no comment and no line of the preprocessor."""
    found, line, at = [], 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        token = match[0]
        if not token.startswith(("//", "/*")) and not token.lstrip().startswith("#"):
            found.append((token, line))
    return found


def closing(tokens, at):
    """The index of the bracket that closes the one at index `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i][0] in ("(", "[", "{")) - (tokens[i][0] in (")", "]", "}"))
        if depth == 0:
            return i
    return len(tokens) - 1


def declarations(tokens, scope=()):
    """(scope, tokens of a declaration, its line) of each declaration in a namespace. A body is the token "{}".

    The scope is the tuple of the namespaces around the declaration, of which "" stands for an anonymous one.
    """
    declaration, line, i = [], 0, 0
    while i < len(tokens):
        token = tokens[i][0]
        if not declaration:
            line = tokens[i][1]
        if token in ("(", "["):
            end = closing(tokens, i)
            declaration += [t for t, _ in tokens[i:end + 1]]
        elif token == "{":
            end = closing(tokens, i)
            words = [t for t in declaration if t != "inline"]
            if words[:1] in (["namespace"], ["extern"]) and "(" not in words:
                yield from declarations(tokens[i + 1:end], scope + ("".join(words[1:]),) if words[0] == "namespace" else scope)
                declaration = []
            else:
                declaration.append("{}")
                if "(" in words and "=" not in top_level_tokens(words) and not is_type(words):  # a function ends with its body
                    yield scope, declaration, line
                    declaration = []
        elif token == ";":
            end = i
            if declaration:
                yield scope, declaration, line
            declaration = []
        else:
            end = i
            declaration.append(token)
        i = end + 1


def without_prefixes(declaration):
    """The declaration without a template's head, attributes and words like inline."""
    rest = list(declaration)
    while rest:
        if rest[0] == "template" or rest[0] == "requires":
            angle = rest.index("<") if "<" in rest[:2] else None
            if angle is None:
                return rest[1:]
            end, open_ = angle, 0
            while True:
                open_ += (rest[end] == "<") - (rest[end] == ">")
                if open_ == 0:
                    break
                end += 1
            rest = rest[end + 1:]
        elif rest[:2] == ["[", "["]:
            rest = rest[rest.index("]") + 2:]
        elif rest[0] in PREFIXES:
            rest = rest[1:]
        else:
            break
    return rest


def is_type(declaration):
    return without_prefixes(declaration)[:1] in (["struct"], ["class"], ["enum"], ["union"])


def top_level_tokens(items):
    """The items that are in no parentheses."""
    found, depth = [], 0
    for item in items:
        depth -= item in (")", "]")
        if depth == 0:
            found.append(item)
        depth += item in ("(", "[")
    return found


def top_level(items, separator):
    """The parts between separators that are in no brackets of any kind."""
    parts, depth = [[]], 0
    for item in items:
        depth += (item in ("(", "[", "<")) - (item in (")", "]", ">"))
        if item == separator and depth == 0:
            parts.append([])
        else:
            parts[-1].append(item)
    return parts


def parameter_types(parameters):
    """The parameters of a function without their names and default values."""
    types = []
    for parameter in top_level(parameters, ","):
        parameter = top_level(parameter, "=")[0]
        words = [t for t in parameter if t not in ("const", "struct")]
        if len(words) > 1 and re.match(r"[A-Za-z_]", words[-1]) and words[-2] != "::":
            parameter = parameter[:-1]
        types.append(" ".join(parameter))
    return ", ".join(types)


def names_of(declaration):
    """(name, what must differ for the same name to be allowed) of all names that a declaration defines."""
    rest, has_body = without_prefixes(declaration), "{}" in declaration
    if not rest or rest[0] in ("static_assert", "friend", "typedef", "namespace", "asm"):
        return
    if rest[0] == "using":
        if "=" in rest:
            yield rest[1], "using " + " ".join(rest[3:])
        return
    if is_type(declaration):
        if not has_body:
            return
        words = [t for t in rest[1:] if t not in ("class", "struct", "final")]
        if words and re.match(r"[A-Za-z_]\w*$", words[0]) and words[1:2] not in (["::"], ["<"]):
            yield words[0], "a type"
        return
    value = rest.index("=") if "=" in rest else len(rest)
    if "operator" in rest[:value]:
        at = rest.index("operator")
        begin = rest.index("(", at + (3 if rest[at + 1] == "(" else 1))
        yield " ".join(rest[at:begin]), parameter_types(rest[begin + 1:len(rest) - 1 - rest[::-1].index(")")])
        return
    angle, begin = 0, None
    for i, token in enumerate(rest[:value]):
        angle += (token == "<") - (token == ">")
        if token == "(" and angle == 0:
            begin = i
            break
    if begin is not None:  # a function, a macro's call, or an object with arguments
        if begin == 0 or not re.match(r"[A-Za-z_]", rest[begin - 1]) or rest[begin - 2:begin - 1] == ["::"] or rest[begin - 1] == "decltype":
            return
        depth, end = 0, begin
        while True:
            depth += (rest[end] == "(") - (rest[end] == ")")
            if depth == 0:
                break
            end += 1
        if has_body or begin == 1:
            yield rest[begin - 1], parameter_types(rest[begin + 1:end])
        return
    for part in top_level(rest, ","):
        words = top_level([t for t in part if t != "{}"], "=")[0]
        while words and words[-1] == "]":
            words = words[:len(words) - 1 - words[::-1].index("[")]
        if words and re.match(r"[A-Za-z_]\w*$", words[-1]) and words[-2:-1] != ["::"]:
            yield words[-1], "a variable"


def conflicts(sources):
    seen = {}
    for source in sources:
        for scope, declaration, line in declarations(tokens_of(pathlib.Path(source).read_text())):
            if "" not in scope:
                continue
            for name, difference in names_of(declaration):
                known = seen.setdefault((scope, name), {})
                for other, (file, other_line) in known.items():
                    functions = not any(d in ("a type", "a variable") or d.startswith("using ") for d in (other, difference))
                    aliases = other == difference and other.startswith("using ")
                    if file != source and not aliases and (other == difference or not functions):
                        yield f"{source}:{line}: '{name}' is also in the anonymous namespace of {file}:{other_line}"
                        break
                known.setdefault(difference, (source, line))


def main():
    target, *sources = sys.argv[1:]
    if len(sources) == 1 and sources[0].startswith("@"):
        sources = pathlib.Path(sources[0][1:]).read_text().splitlines()
    found = list(conflicts(sources))
    for text in found:
        print(text, file=sys.stderr)
    if found:
        print(f"{target} compiles several of its sources as one: rename one of the two, or put what they share into a header", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
