"""What a person gets besides the programs: completions in bash and zsh, manual pages, and `attend top` on a terminal.

usage: shells_test.py BUILD_FOLDER CMAKE
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from terminal_session import TerminalSession

BUILD = pathlib.Path(sys.argv[1])
CMAKE = sys.argv[2]


def run(arguments, **options):
    return subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=300, **options).stdout


class Installed(unittest.TestCase):
    """Everything as `cmake --install` puts it, and a server."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "usr"
        run([CMAKE, "--install", BUILD, "--prefix", cls.prefix])
        cls.attend = cls.prefix / "bin" / "attend"
        cls.environment = dict(os.environ, PATH=f"{cls.prefix}/bin:{os.environ['PATH']}", LC_ALL="C.UTF-8")
        cls.start_server()

    @classmethod
    def start_server(cls):
        server = cls.prefix / "bin" / "attend-server"
        known = run([server, "--help"])
        others = [f"--{name}-listen=none" for name in ("admin", "metrics") if f"--{name}-listen" in known]
        cls.server = subprocess.Popen(
            [server, "--listen=127.0.0.1:0", "--random-model=small:d_model=64,num_heads=4", *others],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.address = cls.server.stdout.readline().split()[-1]

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()
        cls.folder.cleanup()


class ManualPages(Installed):
    def commands(self):
        listed = re.search(r"^Commands:\n(.*?)\n\n", run([self.attend, "--help"]), re.MULTILINE | re.DOTALL)
        return [line.split()[0] for line in listed[1].splitlines()]

    def test_every_command_has_a_page_without_errors(self):
        pages = sorted((self.prefix / "share/man").glob("man*/*"))
        names = [page.name for page in pages]
        self.assertGreaterEqual(len(self.commands()), 7)
        for command in self.commands():
            self.assertIn(f"attend-{command}.1", names)
        self.assertIn("attend.1", names)
        self.assertIn("attend-server.8", names)
        # No date, so that the same sources make the same page.
        lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning", *pages], capture_output=True, text=True, timeout=300)
        self.assertEqual([line for line in lint.stdout.splitlines() if "missing date" not in line], [])

    def shown(self, page):
        text = run(["mandoc", "-Tutf8", "-Owidth=200", self.prefix / "share/man" / page])
        return re.sub(".\x08", "", text)  # bold and underlined letters are typed twice

    def test_a_page_says_what_the_help_says(self):
        page = self.shown("man1/attend-run.1")
        for words in ("attend-run - Send one request", "--random, --shape BxSxE", "attend run --random 2x5x512 --verify",
                      "EXIT STATUS", "attend-server(8)"):
            self.assertIn(words, page)
        self.assertIn("--softcap", self.shown("man1/attend-bench.1"), "what only --help-expert shows")

    def test_a_page_has_every_flag_of_the_help(self):
        pages = {"man8/attend-server.8": [self.prefix / "bin/attend-server"]}
        pages.update({f"man1/attend-{command}.1": [self.attend, command] for command in self.commands()})
        for page, program in pages.items():
            flags = set(re.findall(r"^ +(?:-\w,\s*)?(--[\w-]+)", run([*program, "--help"]), re.MULTILINE))
            shown = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", self.shown(page), re.MULTILINE))
            self.assertIn("--help", flags)
            self.assertEqual(flags - shown, set(), page)


class Bash(Installed):
    def complete(self, line, program="attend", path=None):
        """The replies to a line that bash would cut into these words. Programs in `path` come first."""
        script = self.prefix / "share/bash-completion/completions" / program
        words = line.split(" ")
        cut = []
        for word in words:  # as COMP_WORDBREAKS does
            if word.startswith("--") and "=" in word:
                name, value = word.split("=", 1)
                cut += [name, "="] + ([value] if value else [])
            else:
                cut.append(word)
        quoted = " ".join(f"'{word}'" for word in cut)
        code = (f"source '{script}'; COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
                f"COMP_LINE='{line}'; _{program}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        environment = dict(self.environment, PATH=f"{path}:{self.environment['PATH']}") if path else self.environment
        return set(run(["bash", "--norc", "-c", code], env=environment, cwd=self.folder.name).split())

    def test_commands_and_flags(self):
        self.assertEqual(self.complete("attend mod"), {"models"})
        self.assertLessEqual({"run", "bench", "top", "--version"}, self.complete("attend "))
        self.assertEqual(self.complete("attend run --causal-"), {"--causal-each"})
        self.assertLessEqual({"--wait", "--watch"}, self.complete("attend health --wa"))
        self.assertEqual(self.complete("attend run "), set())

    def test_values(self):
        self.assertEqual(self.complete("attend run --dtype "), {"fp32", "bf16", "fp16"})
        self.assertEqual(self.complete("attend run --dtype=b"), {"bf16"})
        self.assertEqual(self.complete("attend run --logits="), {"last", "all"})
        self.assertEqual(self.complete("attend run --seed "), set())
        self.assertEqual(self.complete("attend completion z"), {"zsh"})
        self.assertEqual(self.complete("attend log-level d"), {"debug"}, "a positional in capitals")
        self.assertEqual(self.complete("attend report us"), {"usr"})
        self.assertEqual(self.complete("attend run --input us"), {"usr"})
        self.assertEqual(self.complete("attend run --query-norm o"), {"ones"})
        self.assertEqual(self.complete("attend bench --similarity gau"), {"gaussian"}, "what only --help-expert shows")
        self.assertEqual(self.complete("attend run --text bench --dtype b"), {"bf16"}, "the first command is the command")

    def test_helps_as_later_versions_of_the_parser_write_them(self):
        fake = pathlib.Path(self.folder.name) / "fake"
        fake.mkdir()
        program = fake / "attend"
        program.write_text(textwrap.dedent("""\
            #!/bin/sh
            case "$*" in
            *expert*) exit 2 ;;
            --help) cat <<'END'
            Talks.

            attend [OPTIONS] [COMMAND]

            OPTIONS:
              -h,     --help              Print this help message and exit

            Commands:
              serve                       Serves
              wash                        Washes up

            Start here:
              attend serve                what
            END
            ;;
            *) cat <<'END'
            Serves

            attend serve [OPTIONS] guest

            POSITIONALS:
              guest ann|bob REQUIRED      For whom

            OPTIONS:
              -h,     --help              Print this help message and exit
                      --dish soup|roast [soup]
                                          What
              -t,     --table N [4]       Which
                      --salt, --no-salt{false}
                                          With salt
                      --list Excludes: --dish
                                          Lists dishes
                      --on [low|high]     How hot; [as|before] otherwise
            END
            ;;
            esac
            """))
        program.chmod(0o755)
        for line, replies in {
                "attend ": {"serve", "wash", "-h", "--help"}, "attend serve ": {"ann", "bob"},
                "attend serve --dish ": {"soup", "roast"}, "attend serve --dish=r": {"roast"}, "attend serve -t ": set(),
                "attend serve --no-": {"--no-salt"}, "attend serve --list b": {"bob"}, "attend serve --on=": {"low", "high"},
                "attend serve --on a": {"ann"}, "attend serve -": {
                    "-h", "--help", "--dish", "-t", "--table", "--salt", "--no-salt", "--list", "--on"}}.items():
            self.assertEqual(self.complete(line, path=fake), replies, line)

    def test_models_of_the_server_that_is_named(self):
        self.assertEqual(self.complete(f"attend run --server={self.address} --model "), {"demo", "small"})
        self.assertEqual(self.complete(f"attend models --server {self.address} sm"), {"small"})

    def test_the_server(self):
        self.assertIn("--listen", self.complete("attend-server --", "attend-server"))
        self.assertEqual(self.complete("attend-server --weights-dtype b", "attend-server"), {"bf16"})


class Zsh(Installed):
    def complete(self, line):
        """The line after TAB."""
        result = pathlib.Path(self.folder.name) / "buffer"
        functions = self.prefix / "share/zsh/site-functions"
        shell = TerminalSession(["zsh", "-f", "-i"], environment=dict(
            PATH=self.environment["PATH"], LC_ALL="C.UTF-8", ZDOTDIR=self.folder.name, PS1="ready> "))
        self.addCleanup(shell.close)
        shell.wait_for("ready> ")
        setup = (f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; "
                 f"tell() {{ print -rn -- $BUFFER > {result}; zle -M told-''it }}; zle -N tell; bindkey '^X' tell; "
                 "echo set''up\n")
        shell.send(setup)
        shell.wait_for("setup")
        shell.wait_for("ready> ")
        shell.send(line + "\t\x18")
        shell.wait_for("told-it")
        return result.read_text()

    def test_commands_flags_and_values(self):
        self.assertEqual(self.complete("attend gen"), "attend generate ")
        self.assertEqual(self.complete("attend run --simil"), "attend run --similarity ")
        self.assertEqual(self.complete("attend run --similarity=lin"), "attend run --similarity=linear ")
        self.assertEqual(self.complete("attend run --dtype bf"), "attend run --dtype bf16 ")
        self.assertEqual(self.complete("attend completion z"), "attend completion zsh ")
        self.assertEqual(self.complete("attend-server --weights-dtype=in"), "attend-server --weights-dtype=int8 ")

    def test_models_of_the_server_that_is_named(self):
        line = f"attend run --server={self.address} --model sm"
        self.assertEqual(self.complete(line), line + "all ")


class Top(Installed):
    CLEAR = "\x1b[H\x1b[J"

    def top(self, address=None):
        session = TerminalSession(
            [str(self.attend), "top", f"--server={address or self.address}", "--interval=200ms"],
            environment=dict(LC_ALL="C.UTF-8"))
        self.addCleanup(session.close)
        session.wait_for(self.CLEAR)
        return session

    def test_each_update_takes_the_place_of_the_last_and_fits(self):
        top = self.top()
        top.wait_for("busy")
        run([self.attend, "run", f"--server={self.address}", "--random=1x5x64", "--model=small"])
        top.wait_for("1 answered")
        top.resize(40, 10)
        frames = (top.wait_for(self.CLEAR) for _ in range(20))
        self.assertTrue(any(frame.count("\r\n") == 8 for frame in frames))
        top.send("\x03")
        self.assertEqual(top.wait_for_exit(), 128 + signal.SIGINT)

    def test_goes_on_when_the_server_is_gone(self):
        top = self.top("127.0.0.1:1")
        top.wait_for("no answer: ")
        top.wait_for("no answer: ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
