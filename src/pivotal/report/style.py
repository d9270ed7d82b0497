"""The style sheet of report.html; a module and not a .css file, so that no build can forget to ship it."""

CSS = """\
:root {
  --paper: #ffffff; --ink: #1d2329; --soft: #5c6670; --line: #dfe3e8; --shade: #f5f7f9; --accent: #2265b0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181c; --ink: #e4e8ec; --soft: #9aa5b0; --line: #2f363d; --shade: #1c2227; --accent: #7db4ee;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 44rem; margin: 0 auto; padding: 2rem 1rem 5rem; }
.kicker { margin: 0; color: var(--accent); font-weight: 600; letter-spacing: .04em; }
h1 {
  margin: .1rem 0 .8rem; font-size: clamp(1.5rem, 6vw, 2.1rem); line-height: 1.2; overflow-wrap: anywhere;
}
h2 { margin: 3rem 0 .8rem; font-size: 1.25rem; line-height: 1.3; }
.lead { font-size: 1.15rem; margin: 0 0 1.2rem; }
.facts { list-style: none; display: flex; flex-wrap: wrap; gap: .5rem; margin: 0; padding: 0; }
.facts li { background: var(--shade); border-radius: .5rem; padding: .35rem .75rem; color: var(--soft); }
.facts b { color: var(--ink); font-size: 1.1rem; margin-right: .15rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td {
  text-align: left; padding: .35rem 1.2rem .35rem 0;
  border-bottom: 1px solid var(--line); white-space: nowrap;
}
th { color: var(--soft); font-weight: 500; }
.n { text-align: right; }
td:nth-child(2):not(.n) { white-space: normal; }
figure { margin: 1.6rem 0; }
figcaption { color: var(--soft); margin-bottom: .6rem; }
figcaption b { color: var(--ink); }
.chart { min-width: 24rem; max-width: 33rem; }
.chart svg { display: block; width: 100%; height: auto; color: var(--ink); }
details { margin-top: .5rem; }
summary { cursor: pointer; color: var(--accent); width: fit-content; }
pre {
  background: var(--shade); border-radius: .5rem; padding: .9rem 1rem; overflow-x: auto;
  font-size: .86rem; line-height: 1.5;
}
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; } }
@media print { details { display: none; } main { max-width: none; } }
"""
