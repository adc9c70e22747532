"""What an agent, a tool or a file name may hold that a page must not take for more than text."""

SCRIPTS = (
    "<script>steal()</script><img src=x onerror=\"steal()\"><svg onload='steal()'>"
    '<iframe srcdoc="<script>parent.steal()</script>"></iframe><style>body{display:none}</style>'
    '<a href="javascript:steal()">press me</a> <form action=https://evil.example><button>Approve</button></form>'
    '</p></div></section><base href="https://evil.example/"><link rel=stylesheet href=https://evil.example/x.css>'
)
ODD = (
    "javascript:steal() data:text/html,<script>steal()</script> https://evil.example/pixel.png "
    "\u202egnp.exe\u202c \u2066isolated\u2069 "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x08\x7f "
    "😀👩‍👩‍👧‍👦 第二高的是杭州 عربي \ufeff\u200b &lt;b&gt; &amp;nbsp; %3Cscript%3E {{7*7}} ${7*7} __proto__"
)
HOSTILE = f"{SCRIPTS} {ODD}\n"
LONG_WORD = "W" * 100_000

_RULES = """
font: italic 900 31px/3.3 cursive; letter-spacing: 4px; word-spacing: 9px; color: lime; text-transform: uppercase;
text-indent: 40px; text-align: right; text-shadow: 2px 2px red; text-decoration: underline wavy; direction: rtl;
unicode-bidi: bidi-override; white-space: nowrap; word-break: break-all; hyphens: auto; list-style: square inside;
cursor: wait; pointer-events: none; font-variant: small-caps; font-stretch: expanded; tab-size: 20; quotes: "<" ">";
border-collapse: collapse; writing-mode: vertical-rl;
"""
STYLES = f"* {{ {_RULES.replace(';', ' !important;')} }}"
"""What the style sheet of a host page may do to everything, an embedded element included."""
