#!/usr/bin/env python3
"""doxygen-filter.py HEADER: prints the header in the form for Doxygen. Names that mean the same everywhere (an op's
`Op`, a verb's `verb`, the operands that a verb declares, describe()) get their comment here, not in each header."""

import re
import sys

ACCESS = {"In": "read", "InList": "read, one or several", "OptionalIn": "read, may be absent", "Out": "written",
          "OutList": "written, one or several", "OptionalOut": "written, may be absent", "InOut": "read and written",
          "OptionalInOut": "read and written, may be absent"}

COMMON = [
    (r"using Op = \w+;", "The primitive that this description makes."),
    (r"static constexpr (?:ops::)?Verb verb = (?:ops::)?Verb::(\w+);", "The verb that takes these operands: {1}."),
    (r"(?:ops::)?Scratch<K> \w+;", "Scratch memory of Primitive::scratch_bytes() bytes; its contents are undefined."),
    (r"(?:ops::)?(In|InList|OptionalIn|Out|OutList|OptionalOut|InOut|OptionalInOut)<K, (?:ops::)?Role::(\w+),[^;]*> \w+;",
     "Operand {2}: {access}."),
    (r"(?:inline )?std::string describe\(const \w+& \w+\);", "One line for logs and errors: parameters, shapes, layouts."),
    (r"struct (?:Forward|BackwardData|BackwardWeights) \{", "The operands of one verb."),
    (r"(?:virtual )?void (forward|backward_data|backward_weights)\(const \w+<(?:ops::)?Tensors>& args\)(?: = 0)?;", "Executes the verb {1}."),
    (r"(?:inline |constexpr )*std::string(?:_view)? to_string\([^)]*\)( \{.*|;)", "The value as text for people."),
    (r"(?:friend |inline |constexpr )*bool operator==\(.*", "Whether both have the same value."),
    (r"\w+\(const \w+&\) = delete;.*", "Not copyable."),
    (r"\w+& operator=\(const \w+&\) = delete;", "Not copyable."),
    (r"class \w+ : public DescribedPrimitive<(\w+)> \{", "The primitive that {1} describes."),
    (r"\w+(?:<\w+>)? (\w+?)_desc\(\) const (?:override )?\{.*", "Describes the operand {1}."),
    (r"\w+Params (?:params|conv|pool);", "The parameters of the op."),
    (r"TensorDesc \w+(?:, \w+)*;", "Shape, dtype and layout of the operands."),
    (r"\w+\(\w+&& other\) noexcept.*", "Takes over what `other` has."),
    (r"\w+& operator=\(\w+&& other\) noexcept;", "Takes over what `other` has."),
    (r"Init weights_init = .*;", "Initial weights."),
    (r"Init bias_init = .*;", "Initial biases."),
]


def comment_for(line):
    for pattern, text in COMMON:
        found = re.fullmatch(pattern, line)
        if found and text:
            groups = dict(enumerate(found.groups(), 1))
            return re.sub(r"\{(\w+)\}", lambda m: ACCESS.get(groups.get(1), "") if m[1] == "access" else groups[int(m[1])],
                          text)
    return None


def split(line, comment):
    """`T a = 1, b = 2;` as one declaration for each name, since Doxygen gives the comment only to the first. If the
    comment has one part per name ("of a; of b"), each name gets its part."""
    found = re.fullmatch(r"(\s+)((?:static |constexpr |const )*[\w:]+(?:<[\w:]+>)?) ((?:[&*]?\w+(?: = [^,;(]+)?, )+[&*]?\w+(?: = [^,;(]+)?);"
                         r"(?:\s*///< (.*))?", line.rstrip("\n"))
    comment = found and (found[4] or comment)
    if not comment:
        return None
    names, comments = found[3].split(", "), comment.split("; ")
    if len(comments) != len(names):
        comments = [comment] * len(names)
    return " ".join(f"/** {c} */ {found[2]} {name};" for name, c in zip(names, comments)) + "\n"


def main():
    above = ""  # the comment on the previous lines, for this line or for the template that ends here
    for line in open(sys.argv[1], encoding="utf-8"):
        text = line.strip()
        code = re.sub(r"\s*//[^/<].*$", "", text)
        comment = None if "///<" in text else above or comment_for(code)
        whole = split(line, comment)
        if whole:
            line = whole
        elif comment and not above and not text.startswith("template"):
            line = f"/** {comment} */ {line.lstrip()}"
        sys.stdout.write(line)
        if text.startswith("/// "):
            above = f"{above} {text[4:]}".strip()
        elif not (above and text.startswith(("template", "requires"))):
            above = ""


main()
