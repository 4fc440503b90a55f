#!/usr/bin/env python3
"""Makes tests/data/tokenizers/: small tokenizers, and what the `tokenizers` library answers with them.

    pip install tokenizers==0.23.1
    python3 tests/data/make_tokenizers.py tests/data/tokenizers [NAME...]

Each tokenizer is trained here on the few sentences below, and set up as the model family that it is named after
sets up its own. Files written:

    NAME/tokenizer.json  as the library saves it
    cases.json           {"texts": [...], "ids": {NAME: [ids of each text]}, "plain": {NAME: the same, without special
                         tokens}}
    steps.json           {"texts": [...], "steps": [{"normalizer", "pre_tokenizer", "added_tokens", "results": one
                         string per text}]}: single steps, over a model that spells bytes and puts | behind each word;
                         {256} is an added token

Training breaks ties by chance: run anew, the script writes other vocabularies, and ids to match. With names it trains
only those tokenizers, and takes the others as the folder has them.
"""

import base64
import json
import pathlib
import sys

from character_map import character_map, replacements
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [line.replace("\\n", "\n").replace("\\t", "\t") for line in r"""
The quick brown fox doesn't jump over 12 lazy dogs, and they're asleep; we'll see what it'd do in 2024.
I've 3.14159 reasons to attend, haven't you? She said: "It's 10:45, let's go!" (he'd gone already)
Attention weights are computed from queries and keys; the values are summed with those weights.
A tokenizer turns text into tokens, tokens into numbers, and numbers into something a network understands.
def attend(query, key, value):\n    scores = query @ key.T / sqrt(d)\n    return softmax(scores) @ value\n
for (int i = 0; i < n; ++i) {\n\tsum += x[i] * y[i];  // the inner product\n}\n
Où est passé le garçon naïf ? Il a mangé une crème brûlée à l'hôtel, près du château.
Die Straße führt über die große Brücke nach München, wo fünf Bäume blühen.
El niño comió jalapeños mañana; ¿cuándo volverá? ¡Qué sé yo!
Быстрая коричневая лиса прыгает через ленивую собаку. Привет, мир!
敏捷的棕色狐狸跳过懒狗。你好，世界！我们今天学习注意力机制。
素早い茶色の狐がのろまな犬を飛び越える。こんにちは、世界！
다람쥐 헌 쳇바퀴에 타고파. 안녕하세요 세계!
الثعلب البني السريع يقفز فوق الكلب الكسول. مرحبا بالعالم
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ สวัสดีชาวโลก
तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। नमस्ते दुनिया
Emoji 😀 😃 👍🏽 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 are written with several code points.
""".strip().splitlines()]

GPT2_SPLIT = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN_SPLIT = GPT2_SPLIT.replace("{1,3}", "")
CLIP_SPLIT = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""

TEXTS = [
    "",
    " ",
    "   ",
    "Hello world",
    " Hello world",
    "Hello world ",
    "  Hello   world  ",
    "Hello\tworld\t\t!",
    "line one\nline two\r\nline three\n\n\n  indented\n",
    "trailing newline\n",
    "\n",
    " \n \n x \u00a0 y\u3000z\u2028w\u0085v",
    "don't I'll we're they've I'm he'd it's",
    "DON'T I'LL WE'RE THEY'VE I'M HE'D IT'S",
    "the '\u017fpecial' 's 'S ''s",
    "1 12 123 1234 12345 3.14 1,000,000 \u0661\u0662\u0663 \u00bd \u2167 \u4e09",
    "x=1;y=2;//comment  #tag @user a_b-c.d/e\\f|g~h`i^j",
    "snake_case camelCase SCREAMING_CASE kebab-case",
    "\U0001f600\U0001f44d\U0001f3fd \U0001f469\u200d\U0001f4bb\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308\U0001f1e9\U0001f1ea",
    "caf\u00e9 cafe\u0301 na\u00efve nai\u0308ve \u1e69 s\u0323\u0307 \u212b A\u030a",
    "\ufb01ne \uff21\uff22\uff23 \u2460 \u33a5 \u0132",
    "\u0130stanbul I\u0307 \u1e9e STRASSE stra\u00dfe \u03a3\u0391\u03a3 \u01c4",
    "\u654f\u6377\u7684\u68d5\u8272\u72d0\u72f8\u3002hello\u4e16\u754c\U00020000x",
    "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\uff76\uff85",
    "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e19\u0e49\u0e33",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0915\u094d\u0937",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0419\u043e\u0433 \u0401\u043b\u043a\u0430",
    "nul\u0000byte \u0001\u0002\u001b[0m\u007f\u0080\u009f bell\u0007",
    "\ufffd \ufeff \u200b \u00ad \u2060 \ue000 \U000f0000 \uffff \U0010ffff \u0378",
    "a\u0301\u0302\u0303\u0304\u0305b",
    "\u0301leading mark",
    "\u2581meta \u2581\u2581space a\u2581b",
    "<s>", "<s> a</s>", " <s> ", "a<s>b", "<s><s>  </s>", "x <mask> y", "x<mask>y", "x  <mask>  y",
    "<|endoftext|>", "a<|endoftext|> b", " <|endoftext|><|endoftext|> ", "<|endoftex|>",
    "[CLS] a [SEP]", "[cls] A [MASK]b", "[UNK]", "<unk>", "<pad>",
    "attend attends ATTEND Attend attend2 2attend",
    "<0x41> <0xE2>\u2582 \u2583\u2584",
    "unaffable " + "attention" * 12,
    "a" * 99 + " " + "b" * 100 + " " + "c" * 101,
    "qz" * 150,
    " " * 40 + "x" + " " * 41,
    "!!! ... ?!? --- \u2014\u2014 \u2018q\u2019 \u201cq\u201d \u00abq\u00bb",
    "https://example.org/a?b=c&d=%20e#f user@example.org",
    "mix\u6df7\u5408\u0441\u043c\u0435\u0441\u044c\u0645\u0632\u064a\u062c1\u0967x\U0001d400\U0001d7d8",
]


def train(tokenizer, trainer_class, **options):
    trainer = trainer_class(show_progress=False, **options)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return tokenizer


def byte_level(vocab_size, special_tokens, normalizer=None, pre_tokenizer=None, model=None):
    tokenizer = Tokenizer(model or models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    suffix = {"end_of_word_suffix": "</w>"} if model else {}
    return train(tokenizer, trainers.BpeTrainer, vocab_size=vocab_size, special_tokens=special_tokens,
                 initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), **suffix)


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(tokenizer, single, names):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])
    return tokenizer


def gpt2():
    tokenizer = byte_level(420, ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def roberta():
    tokenizer = byte_level(400, ["<s>", "<pad>", "</s>", "<unk>"],
                           pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def llama3():
    tokenizer = byte_level(420, [], pre_tokenizer=split(GPT2_SPLIT))
    vocabulary = json.loads(tokenizer.to_str())
    vocabulary["model"]["ignore_merges"] = True
    # A token that no merges lead to: only ignore_merges finds it.
    vocabulary["model"]["vocab"]["\u0120they"] = len(vocabulary["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(vocabulary))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|endoftext|>"])
    template(tokenizer, "<|begin_of_text|> $A", ["<|begin_of_text|>"])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), tokenizer.post_processor])
    return tokenizer


def qwen():
    tokenizer = byte_level(400, [], normalizers.NFC(), split(QWEN_SPLIT))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("<unk>", normalized=False)])
    return tokenizer


def neox():
    tokenizer = byte_level(400, ["<|endoftext|>", "<pad>"], normalizers.NFC())
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in (4, 3, 2)])
    return tokenizer


def clip():
    normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP_SPLIT), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer = byte_level(800, ["<|startoftext|>", "<|endoftext|>"], normalizer, pre_tokenizer,
                           models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    return template(tokenizer, "<|startoftext|> $A <|endoftext|>", ["<|startoftext|>", "<|endoftext|>"])


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece(normalizer, pre_tokenizer):
    """BPE with byte fallback. Trained on words, as SentencePiece does, then set up as asked."""
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    train(trained, trainers.BpeTrainer, vocab_size=560, limit_alphabet=120,
          special_tokens=["<unk>", "<s>", "</s>"] + BYTES)
    tokenizer = Tokenizer(models.BPE())
    vocabulary = json.loads(trained.to_str())
    vocabulary["added_tokens"] = [token for token in vocabulary["added_tokens"] if token["id"] < 3]
    vocabulary["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(vocabulary))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    return template(tokenizer, "<s> $A", ["<s>"])


def llama2():
    return sentencepiece(
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None)


def mistral():
    return sentencepiece(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))


def gemma():
    return sentencepiece(normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"))


def phi3():
    tokenizer = llama2()
    tokenizer.add_tokens([AddedToken("</s>", rstrip=True, normalized=False),
                          AddedToken("<mask>", lstrip=True, rstrip=True, single_word=True)])
    return tokenizer


def bert(lowercase, name):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    train(tokenizer, trainers.WordPieceTrainer, vocab_size=600, special_tokens=special_tokens)
    if name == "template":
        return template(tokenizer, "[CLS]:0 $A:0 [SEP]:0", ["[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram(normalizer, pre_tokenizer):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    train(tokenizer, trainers.UnigramTrainer, vocab_size=450, special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
          unk_token="<unk>")
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return template(tokenizer, "<s> $A </s>", ["<s>", "</s>"])


def xlm_roberta():
    return unigram(
        normalizers.Precompiled(character_map(replacements(TEXTS + SENTENCES))),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))


def camembert():
    return unigram(
        normalizers.Sequence([normalizers.Replace("\n", " "), normalizers.Replace("\t", " "),
                              normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")]),
        pre_tokenizers.Metaspace())


TOKENIZERS = {
    "gpt2": gpt2, "roberta": roberta, "llama3": llama3, "qwen": qwen, "neox": neox, "clip": clip, "llama2": llama2,
    "mistral": mistral, "gemma": gemma, "phi3": phi3, "bert_uncased": lambda: bert(True, "template"),
    "bert_cased": lambda: bert(False, "bert"), "xlm_roberta": xlm_roberta, "camembert": camembert,
}


def added(content, **options):
    return {"id": 256, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **options}


def bert_normalizer(**options):
    return {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
            "lowercase": False, **options}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def cut(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(**options):
    return {"type": "Metaspace", "replacement": "\u2581", **options}


def precompiled(texts):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(character_map(replacements(texts))).decode()}


# Texts for single steps alone.
STEP_TEXTS = ["e\u0301tude", "a\u0308 b", "\u1100\u1161", "tt TT tT", "]  \r", "x\n", "x\r\n", "x\u2028",
              "h h  e", "enTENt", "\ufb01\u0301x", "\ufb01\u0301\u0302\u0303ex", "\u0001xe \u0001", "\u0001\u0002 e",
              "\u00bdx e", "e\u0301x\u0001\u2460e a\r\ne", "\u200b\ufb01e \u3000x"]

BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
STEPS = [
    *[{"normalizer": {"type": form}} for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")],
    {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}},
    {"normalizer": bert_normalizer(clean_text=True)},
    {"normalizer": bert_normalizer(handle_chinese_chars=True)},
    {"normalizer": bert_normalizer(strip_accents=True)},
    {"normalizer": bert_normalizer(lowercase=True)},
    {"normalizer": bert_normalizer(lowercase=True, strip_accents=None)},
    {"normalizer": replace({"String": "tt"}, "<>")},
    {"normalizer": replace({"String": ""}, "-")},
    {"normalizer": replace({"Regex": r"\s+"}, " ")},
    {"normalizer": replace({"Regex": "^"}, ">")},
    {"normalizer": replace({"Regex": r"\w|$"}, "$1")},
    {"normalizer": replace({"Regex": r"[\w^]|(?m:t.)|\h"}, "_")},
    {"normalizer": {"type": "Prepend", "prepend": "\u2581x"}},
    *[{"normalizer": {"type": "Strip", "strip_left": left, "strip_right": right}}
      for left, right in ((True, True), (True, False), (False, True))],
    {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}},
    {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}},
    *[{"pre_tokenizer": {"type": kind}} for kind in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")],
    *[{"pre_tokenizer": cut({"Regex": r"\s|tt"}, behavior)} for behavior in BEHAVIORS],
    *[{"pre_tokenizer": cut({"String": " "}, behavior, True)} for behavior in BEHAVIORS],
    *[{"pre_tokenizer": cut({"Regex": ""}, behavior)} for behavior in ("Isolated", "MergedWithNext")],
    *[{"pre_tokenizer": {"type": "Punctuation", "behavior": behavior}} for behavior in BEHAVIORS],
    *[{"pre_tokenizer": {"type": "Digits", "individual_digits": individual}} for individual in (True, False)],
    *[{"pre_tokenizer": metaspace(prepend_scheme=scheme, split=split)}
      for scheme in ("always", "first", "never") for split in (True, False)],
    {"pre_tokenizer": metaspace(add_prefix_space=True)},
    {"pre_tokenizer": metaspace(add_prefix_space=False, prepend_scheme="never")},
    {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False},
     "pre_tokenizer": metaspace(prepend_scheme="first")},
    {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, metaspace(prepend_scheme="first")]}},
    {"normalizer": {"type": "Prepend", "prepend": "\u2581"},
     "pre_tokenizer": metaspace(prepend_scheme="first"), "added_tokens": [added("<s>"), added("hello", id=257)]},
    {"added_tokens": [added("tt", single_word=True), added("end", id=257), added("attend", id=258)]},
    {"added_tokens": [added("x", lstrip=True, rstrip=True), added("y", id=257, lstrip=True)]},
    {"normalizer": {"type": "Lowercase"}, "added_tokens": [added("AT", normalized=True), added("HELLO", id=257)]},
    *[{"normalizer": {"type": form}, "pre_tokenizer": metaspace(prepend_scheme="first")} for form in ("NFC", "NFKC", "NFD")],
    {"normalizer": replace({"Regex": "^|$"}, ">"), "pre_tokenizer": metaspace(prepend_scheme="first"),
     "added_tokens": [added("  "), added("h", id=257)]},
    *[{"pre_tokenizer": cut({"Regex": regex}, "Isolated")} for regex in (
        r"(?i)t(?-i)T|E", r"n(?i)t|E(?-i)N|.", r"(?:t(?i)E|h(?m))|W(?#no (group)", r".\Z", r"\p{Digit}+|\p{Space}+|\p{Word}+",
        r"[^\p{word}]\P{Word}")],
    {"normalizer": precompiled(TEXTS + STEP_TEXTS)},
    {"normalizer": precompiled(STEP_TEXTS), "pre_tokenizer": metaspace(prepend_scheme="first"),
     "added_tokens": [added("e"), added("x", id=257)]},
]


def spelling(step):
    """A tokenizer whose ids are the bytes of its words, with | behind each; ids from 256 on are added tokens."""
    vocabulary = {name: byte for byte, name in enumerate(BYTES)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": True, "end_of_word_suffix": "|"}
    return Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None,
                                          "pre_tokenizer": None, "post_processor": None, "decoder": None,
                                          "model": model, **step}))


def shown(ids):
    return b"".join(bytes([i]) if i < 256 else b"{%d}" % i for i in ids).decode()


def write(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


def main(folder, names):
    cases = {"texts": TEXTS, "ids": {}, "plain": {}}
    for name, make in TOKENIZERS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        if not names or name in names:
            make().save(str(folder / name / "tokenizer.json"), pretty=False)
        tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
        cases["ids"][name] = [tokenizer.encode(text).ids for text in TEXTS]
        cases["plain"][name] = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    write(folder / "cases.json", cases)
    texts = [text for text in TEXTS if len(text) <= 60] + STEP_TEXTS
    steps = [{**step, "results": [shown(spelling(step).encode(text).ids) for text in texts]} for step in STEPS]
    write(folder / "steps.json", {"texts": texts, "steps": steps})


main(pathlib.Path(sys.argv[1]), sys.argv[2:])
