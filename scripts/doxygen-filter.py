#!/usr/bin/env python3
"""doxygen-filter.py HEADER: the header as Doxygen reads it. Names that mean the same everywhere (an op's `Op`, a verb's
`verb`, the operands that a verb declares, describe()) get their comment here and not in each header."""

import re
import sys

ACCESS = {"In": "read", "InList": "read, one or several", "OptionalIn": "read, may be absent", "Out": "written",
          "OutList": "written, one or several", "OptionalOut": "written, may be absent", "InOut": "read and written",
          "OptionalInOut": "read and written, may be absent"}

COMMON = [
    (r"using Op = \w+;", "The primitive that this description makes."),
    (r"static constexpr Verb verb = Verb::(\w+);", "The verb that takes these operands: {1}."),
    (r"Scratch<K> \w+;", "Scratch memory of Primitive::scratch_bytes() bytes; its contents are undefined."),
    (r"(In|InList|OptionalIn|Out|OutList|OptionalOut|InOut|OptionalInOut)<K, Role::(\w+),[^;]*> \w+;",
     "Operand {2}: {access}."),
    (r"(?:inline )?std::string describe\(const \w+& \w+\);", "One line for logs and errors: parameters, shapes, layouts."),
    (r"struct (?:Forward|BackwardData|BackwardWeights) \{", "The operands of one verb."),
    (r"virtual void (forward|backward_data|backward_weights)\(const \w+<Tensors>& args\) = 0;", "Executes the verb {1}."),
    (r"(?:inline |constexpr )*std::string(?:_view)? to_string\([^)]*\)( \{.*|;)", "The value as text for people."),
    (r"(?:friend |inline |constexpr )*bool operator==\(.*", "Whether both have the same value."),
    (r"\w+\(const \w+&\) = delete;.*", "Not copyable."),
    (r"\w+& operator=\(const \w+&\) = delete;", "Not copyable."),
    (r"(?:class|struct) \w+;", ""),  # a forward declaration: the definition has the comment
]


def comment_for(line):
    for pattern, text in COMMON:
        found = re.fullmatch(pattern, line)
        if found and text:
            groups = dict(enumerate(found.groups(), 1))
            return re.sub(r"\{(\w+)\}", lambda m: ACCESS.get(groups.get(1), "") if m[1] == "access" else groups[int(m[1])],
                          text)
    return None


def main():
    commented = False  # the line before is a comment for Doxygen, or the head of a template that has one
    for line in open(sys.argv[1], encoding="utf-8"):
        text = line.strip()
        code = re.sub(r"\s*//[^/<].*$", "", text)
        own = "///<" in text
        comment = None if commented or own else comment_for(code)
        if comment:
            line = f"/** {comment} */ {line.lstrip()}" if not text.startswith("template") else line
        sys.stdout.write(line)
        commented = text.startswith("///") or (commented and text.startswith("template"))


main()
