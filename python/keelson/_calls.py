"""Errors of calls in one line: which argument of a function of the engine is unknown, missing or of a wrong type."""

import builtins
import difflib
import re
import sys

_MARK = "(): incompatible function arguments. The following argument types are supported:\n"
_NUMBERS = {"int": ("int",), "float": ("float", "int"), "bool": ("bool",)}


def _split(text, separator=","):
    """The parts of a list, without those separators that lie within brackets or quotes."""
    parts, depth, quote, begin = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote and text[i - 1] != "\\" else quote
        elif c in "'\"":
            quote = c
        elif c in "([{<":
            depth += 1
        elif c in ")]}>" and text[i - 1:i + 1] != "->":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def _a(kind):
    """With its article: "an int"."""
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


class _Argument:
    def __init__(self, text, keyword_only):
        head, *default = _split(text, "=")
        self.name, _, self.type = (part.strip() for part in head.partition(":"))
        self.default, self.keyword_only = default[0] if default else None, keyword_only
        self.rest = self.name.startswith("*")

    def __str__(self):
        kind = _short(self.type)
        return f"{self.name}: {kind}" if kind else self.name


def _short(kind):
    """A type as users write it: without the modules that they do not see."""
    kind = re.sub(r"\bkeelson\._engine\.", "keelson.", kind)
    kind = re.sub(r"\bcollections\.abc\.|\bnumpy\.typing\.", "", kind)
    return re.sub(r"^typing\.Any$|^object( \| None)?$", "", kind)


def _arguments(signature):
    """Those of a line of nanobind: "1. dense(x: keelson._engine.Var, features: int, *, name: str = '') -> ..."."""
    inside = signature[signature.index("(") + 1:]
    depth, quote = 1, ""
    for end, c in enumerate(inside):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        depth += (c in "([{") - (c in ")]}") if not quote else 0
        if depth == 0:
            break
    arguments, keyword_only = [], False
    for text in _split(inside[:end]):
        if text == "*":
            keyword_only = True
        elif text != "/":
            arguments.append(_Argument(text, keyword_only))
            keyword_only = keyword_only or arguments[-1].name.startswith("*")
    return arguments


def _class(name):
    """The class of this name; None: it is not known."""
    for cut in range(len(name)):
        if cut and name[cut] == "." and (module := sys.modules.get(name[:cut])):
            found = module
            for part in name[cut + 1:].split("."):
                found = getattr(found, part, None)
            if isinstance(found, type):
                return found
    return getattr(builtins, name, None)


def _fits(kind, given):
    """Whether a value of the type `given` may be an argument of this type; None: that cannot be said of types alone."""
    kinds = _split(kind, "|")
    if not kind or "object" in kinds or "typing.Any" in kinds:
        return None
    answers = [_fits_one(one, given) for one in kinds]
    return True if True in answers else None if None in answers else False


def _fits_one(kind, given):
    base, found = kind.split("[")[0], _class(given)
    if base == "None":
        return given == "NoneType"
    if base in _NUMBERS:
        if given in _NUMBERS or given in ("str", "bytes", "NoneType", "list", "tuple", "dict", "set"):
            return given in _NUMBERS[base] or given == "bool" and base != "bool"
        return None  # numbers of NumPy, and others
    if base == "str":
        return given == "str"
    if base.endswith("Sequence"):
        return None if given in ("list", "tuple") else False if given in (*_NUMBERS, "str", "NoneType", "dict", "set") else None
    if base.endswith("Mapping") or base == "dict":
        return None if given == "dict" else False if given in (*_NUMBERS, "str", "NoneType", "list", "tuple", "set") else None
    if base == "tuple":
        return None if given == "tuple" else False if given in (*_NUMBERS, "str", "NoneType", "dict") else None
    wanted = _class(base)
    if isinstance(wanted, type) and isinstance(found, type):
        return issubclass(found, wanted)
    return None


def _complaints(arguments, positional, named):
    """What is certainly wrong with a call, in sentences."""
    by_name = {a.name: a for a in arguments if not a.rest}
    wrong = []
    takes_rest = any(a.rest and not a.name.startswith("**") for a in arguments)
    takes_named = any(a.name.startswith("**") for a in arguments)
    places = [a for a in arguments if not a.rest and not a.keyword_only]
    if len(positional) > len(places) and not takes_rest:
        more = ", ".join(a.name + "=" for a in arguments if a.keyword_only)
        wrong.append(f"{len(positional)} arguments without a name were given. Expected at most {len(places)}"
                     + (f"; the others need their names: {more}" if more else ""))
    given = dict(zip((a.name for a in places), positional))
    for key, kind in named.items():
        if key in given:
            wrong.append(f"the argument '{key}' was given twice")
        elif key not in by_name and not takes_named:
            known = list(by_name)
            close = difflib.get_close_matches(key, known, 1) or {"lr": ["learning_rate"]}.get(key, [])
            close = [c for c in close if c in known]
            wrong.append(f"no argument is called '{key}'. " + (f"Did you mean '{close[0]}'? " if close else "")
                         + f"Expected one of {', '.join(known)}")
        given[key] = kind
    for key, kind in given.items():
        if key in by_name and _fits(by_name[key].type, kind) is False:
            wrong.append(f"the argument {by_name[key].name} is {_a(_short(kind))}. Expected {_short(by_name[key].type)}")
    missing = [str(a) for a in by_name.values() if a.default is None and a.name not in given]
    if missing:
        wrong.append(f"{'the arguments' if len(missing) > 1 else 'the argument'} {', '.join(missing)} "
                     f"{'are' if len(missing) > 1 else 'is'} missing")
    return wrong


def one_line(text):
    """The message of nanobind's TypeError in one line; other messages as they are."""
    name, mark, rest = text.partition(_MARK)
    if not mark:
        return text
    listed, _, called = rest.partition("\nInvoked with types: ")
    signatures = [_arguments(line) for line in re.findall(r"^    \d+\. (.*)$", listed, re.MULTILINE)]
    positional, named = [], {}
    for part in _split(called):
        if part.startswith("kwargs = {"):
            named = {key.strip(): kind.strip() for key, _, kind in (p.partition(":") for p in _split(part[10:-1]))}
        else:
            positional.append(part)
    if signatures and all(s and s[0].name == "self" for s in signatures):  # a method, of an object of this class
        owner = _short(positional[0]).removeprefix("keelson.") if positional else ""
        name = owner if name == "__init__" else f"{owner}.{name}"
        signatures, positional = [s[1:] for s in signatures], positional[1:]
    found = [_complaints(s, positional, named) for s in signatures]
    wrong = min(found, key=len) if found else []
    if wrong and all(found):
        return f"{name}(): {'; '.join(wrong)}"
    types = ", ".join([*map(_short, positional), *(f"{key}: {_short(kind)}" for key, kind in named.items())])
    expected = " or ".join(f"({', '.join(map(str, s))})" for s in signatures)
    return f"{name}(): cannot take ({types}). Expected {expected}; a number must be in the range of its type"
