#!/usr/bin/env python3
"""Doxygen's input filter: the header's plain comments, in doxygen's form.

The header is a manual for people and stays free of markup.  What its layout says is said to
doxygen here:

 - a comment behind code describes it,
 - a comment on lines of its own describes the declarations below it, up to a blank line or
   the next such comment; inside a struct or an enum, up to its end,
 - a comment that begins with a rule of dashes begins a chapter,
 - what struct_size and reserved are holds for every struct.
"""

import re
import sys

CHAPTER = re.compile(r"-{5,} (.+)\n?")
ENUM_VALUE = re.compile(r"\w+( = [^,]+)?,?")
SEVERAL = re.compile(r"((?:const )?\w+ )(\**\w+(?:, \**\w+)+);")
EVERYWHERE = {
    "struct_size": "sizeof the struct in the header that the caller was built with",
    "reserved": "0",
}


def markup(text):
    """Text that doxygen shows as it stands; paragraphs stay."""
    text = text.replace("\\", "\\\\").replace("@", "\\@").replace("&", "&amp;")
    return re.sub(r"([<>#%$])", r"\\\1", text)


def plain(comment):
    """The text inside a comment."""
    lines = comment[2:-2].split("\n")
    return "\n".join(re.sub(r"^ *(\* ?)?" if at else "", "", line).rstrip()
                     for at, line in enumerate(lines)).strip()


def pieces(text):
    """(kind, code, comment) of blank lines, comments on their own, and code with what stands
    behind it, a declaration or a preprocessor line at a time."""
    code = ""
    position = 0
    while position < len(text):
        end = text.index("\n", position) + 1
        line = text[position:end]
        comment = ""
        start = line.find("/*")
        if start >= 0:
            after = text.index("*/", position + start) + 2
            comment = text[position + start : after]
            end = text.index("\n", after) + 1
            line = line[:start] + text[after : end - 1]  # as the end of an enum on one line
        position = end
        if not code and not line.strip():
            yield ("comment", "", comment) if comment else ("blank", "", "")
            continue
        code += line if line.endswith("\n") else line + "\n"
        last = line.strip()
        if last.startswith("#") or code.startswith("#"):
            complete = not last.endswith("\\")
        else:
            complete = comment or re.search(r"[;{},]$", last) and code.count("(") == code.count(")")
        if complete:
            yield "code", code.rstrip(), comment
            code = ""


class Filter:
    """Writes the header again, with doxygen's comments in front of what they describe."""

    def __init__(self):
        self.out = []
        self.about = [""]  # of the file, and of the struct or enum that is open
        self.inside = ""
        self.chapters = 0

    def comment(self, comment):
        text = plain(comment)
        chapter = CHAPTER.match(text)
        if not self.out:
            # The introduction keeps its columns.
            self.out.append(f"/** @file\n@verbatim\n{text}\n@endverbatim */")
        elif chapter:
            title = chapter.group(1)[0].upper() + chapter.group(1)[1:]
            name = re.sub(r"\W+", "_", title.lower())
            body = markup(text[chapter.end() :].strip())
            if self.chapters:
                self.out.append("/** @} */")
            self.out.append(f"/** @defgroup {name} {title}\n{body} @{{ */")
            self.chapters += 1
            self.about[-1] = ""
        else:
            self.about[-1] = text

    def describe(self, code, comment):
        own = plain(comment) if comment else ""
        about = self.about[-1] if self.inside or not own else ""
        text = "\n\n".join(filter(None, [about, own]))
        several = SEVERAL.fullmatch(code.strip())
        if several:
            parts = [f"{several.group(1)}{name};" for name in several.group(2).split(", ")]
        else:
            parts = [code]
        for part in parts:
            name = re.search(r"\w+(?=\W*$)", part)
            said = EVERYWHERE.get(name.group(0), text) if name else text
            if said:
                self.out.append(f"/** {markup(said)} */")
            self.out.append(part)

    def code(self, code, comment):
        stripped = code.strip()
        if self.inside and stripped.endswith("{"):
            self.leave()  # the same beginning once more, in another branch of an #if
        if self.inside == "function":
            self.out.append(code)
        elif stripped.startswith("}") or stripped.startswith("extern"):
            self.out.append(code)
        elif stripped.startswith("#"):
            if re.match(r"#\s*define", stripped):
                self.describe(code, comment)
            else:
                self.out.append(code)
        elif self.inside == "enum" or re.match(r"(typedef )?enum\b.*\{.*\w", stripped):
            self.values(code, comment)
        else:
            self.describe(code, comment)
        self.nest(stripped)

    def values(self, code, comment):
        """Enumerators, perhaps several on a line and perhaps with the braces around them."""
        head, brace, rest = code.rpartition("{")
        body, close, tail = rest.partition("}")
        values = [value.strip() for value in body.split(",") if value.strip()]
        if brace:
            self.out.append(head + brace)
        for value in values:
            assert ENUM_VALUE.fullmatch(value), value
            self.describe(f"    {value},", comment)
        if close:
            self.out.append(close + tail)

    def nest(self, code):
        if code.endswith("{") and not code.startswith("extern"):
            kind = re.match(r"(?:typedef )?(struct|enum)\b", code)
            self.inside = kind.group(1) if kind else "function"
            self.about.append("")
        elif "}" in code and "{" not in code and self.inside:
            self.leave()

    def leave(self):
        self.inside = ""
        self.about.pop()

    def run(self, text):
        for kind, code, comment in pieces(text):
            if kind == "comment":
                self.comment(comment)
            elif kind == "code":
                self.code(code, comment)
            else:
                if not self.inside:
                    self.about[-1] = ""
                self.out.append("")
        if self.chapters:
            self.out.append("/** @} */")
        return "\n".join(self.out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write(Filter().run(header.read()))
