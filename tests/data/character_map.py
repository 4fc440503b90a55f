"""Makes SentencePiece's map of characters, for make_tokenizers.py."""

import struct
import unicodedata


def replacements(texts):
    """What SentencePiece's rules, NFKC and "nmt", replace in these texts: {characters: replacement}."""
    found = {}
    for text in texts:
        for first, second in zip(text, text[1:] + " "):
            for key in (first, first + second):
                value = unicodedata.normalize("NFKC", key)
                if value != key and (len(key) == 1 or len(value) == 1):
                    found[key] = value
            if unicodedata.category(first) == "Cc" and first != "\0":
                found[first] = " " if first in "\t\n\r" else ""
            elif first in "\u200b\u200d\u2028\ufeff":
                found[first] = " "
    return found


def character_map(replaced):
    """SentencePiece's precompiled_charsmap: a trie as Darts writes it, then the replacements."""
    texts, places = b"", {}
    for value in sorted(set(replaced.values())):
        places[value] = len(texts)
        texts += value.encode() + b"\0"
    root = {}
    for key, value in replaced.items():
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = places[value]  # no key has a zero byte
    units, bases, waiting = {0: 0}, set(), [(0, root)]
    while waiting:
        at, node = waiting.pop()
        base = next(b for b in range(1, 1 << 20) if b not in bases and not any(b ^ label in units for label in node))
        bases.add(base)
        units[at] |= (at ^ base) << 10 | (0 in node) << 8
        for label, child in node.items():
            units[base ^ label] = 1 << 31 | child if label == 0 else label
            if label:
                waiting.append((base ^ label, child))
    size = (max(units) // 256 + 1) * 256
    trie = struct.pack(f"<{size}I", *(units.get(at, 0) for at in range(size)))
    return struct.pack("<I", len(trie)) + trie + texts
