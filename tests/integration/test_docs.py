# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/ are true: their commands run as they stand, and answer what the page shows.

In a ```console block each line after "$ " is a command for bash (a line after "> " goes on with it); the lines below
are what it prints, where "..." stands for anything. Ids, addresses and times are shown as "...". All blocks of a page
run in one shell, the ```python blocks of a page in one namespace; "python gpu" is only compiled, for it needs a GPU.
GMV_UPDATE_DOCS=1 writes what was printed into the pages instead.
"""

import os
import re
import shutil
import subprocess

import pytest

from conftest import BACKEND, SOURCE

PAGES = sorted((SOURCE / "docs").glob("*.md"))
ADDRESS = "http://127.0.0.1:8080"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = [(re.compile(r"\b(buf|view|col|tbl|pkd|ses)_[0-9a-z]{26}\b"), r"\1_..."), (re.compile(r"\b1[0-9]{14}\b"), "..."),
           (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "..."), (re.compile(r'("request_id": *)"[^"]*"'), r'\1"..."')]


def blocks(text, language):
    return [match for match in FENCE.finditer(text) if match[1] == language]


def commands(block):
    """[(command, printed)] of a console block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        else:
            assert found, f"the block does not begin with a command: {line}"
            found[-1][1].append(line)
    return [(command, "\n".join(printed)) for command, printed in found]


def run(steps, folder, url):
    """What each of the commands prints, in one shell."""
    mark = "@@@@ the next command @@@@"
    script = "".join(f"{command}\nprintf '\\n%s\\n' '{mark}'\n" for command in steps).replace(ADDRESS, url)
    done = subprocess.run(["bash", "-u"], input=script, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not done.stderr, done.stderr
    printed = done.stdout.split(f"\n{mark}\n")
    assert len(printed) == len(steps) + 1 and not printed[-1]
    return [text.strip("\n") for text in printed[:-1]]


def general(text, url):
    for pattern, instead in VARYING:
        text = pattern.sub(instead, text)
    return text.replace(url, ADDRESS)


def agrees(shown, printed):
    pattern = ".*?".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def rewrite(page, text, answers):
    answers = iter(answers)

    def block(match):
        if match[1] != "console":
            return match[0]
        lines = []
        for command, _ in commands(match[2]):
            lines.append("$ " + command.replace("\n", "\n> "))
            lines += [line for line in [next(answers)] if line]
        return "```console\n" + "\n".join(lines) + "\n```"

    page.write_text(FENCE.sub(block, text))


@pytest.mark.skipif(BACKEND == "cuda", reason="the pages show the host backend")
@pytest.mark.skipif(not shutil.which("jq"), reason="there is no jq")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text(), "console")], ids=lambda page: page.name)
def test_commands_of_the_page_print_what_it_shows(daemon, client, page, tmp_path):
    text = page.read_text()
    steps = [step for block in blocks(text, "console") for step in commands(block[2])]
    answers = [general(answer, daemon.url) for answer in run([command for command, _ in steps], tmp_path, daemon.url)]
    if os.environ.get("GMV_UPDATE_DOCS"):
        rewrite(page, text, answers)
        return
    for (command, shown), printed in zip(steps, answers):
        assert agrees(shown, printed), f"{page.name}: {command}\nprints: {printed}\nthe page shows: {shown}"


@pytest.mark.skipif(BACKEND == "cuda", reason="the pages show the host backend")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text(), "python")], ids=lambda page: page.name)
def test_python_of_the_page_runs(daemon, client, page, monkeypatch):
    monkeypatch.syspath_prepend(SOURCE / "clients" / "python")
    namespace = {}
    for block in blocks(page.read_text(), "python"):
        exec(compile(block[2].replace(ADDRESS, daemon.url), page.name, "exec"), namespace)


def test_python_that_needs_a_gpu_compiles():
    found = [(page, block) for page in PAGES for block in blocks(page.read_text(), "python gpu")]
    assert found
    for page, block in found:
        compile(block[2], page.name, "exec")


def test_pages_are_linked_and_installed_and_links_lead_somewhere():
    readme, installed = (SOURCE / "README.md").read_text(), (SOURCE / "docs" / "local.mk").read_text()
    for page in PAGES:
        assert f"docs/{page.name}" in readme, page.name
        assert f"docs/{page.name}" in installed, page.name
    for text in [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *PAGES]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text.read_text()):
            assert (text.parent / target).exists(), f"{text.name}: {target}"


def test_figures_are_those_of_the_benchmarks():
    rows = re.findall(r"^\| [^|]+ \| ([0-9., ]+) \|$", (SOURCE / "docs" / "performance.md").read_text(), re.MULTILINE)
    figures = [figure for row in rows for figure in row.split(", ")]
    measured = (SOURCE / "bench" / "README.md").read_text()
    assert len(figures) >= 12
    for figure in figures:
        assert re.search(rf"\| {re.escape(figure)} \|", measured), figure


def test_the_checks_see_what_differs():
    assert agrees('{"id":"buf_...","n":1}', '{"id":"buf_...","n":1}') and agrees("a...z", "abcz")
    assert not agrees('{"n":1}', '{"n":2}') and not agrees("a", "ab")
    assert commands('$ a\n> b\n1\n2\n$ c\n') == [("a\nb", "1\n2"), ("c", "")]
