"""What the report looks like."""

CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1f2937;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .75rem; }
h2 { font-size: 1.4rem; margin: 0 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.25rem 0 .5rem; }
p { max-width: 48rem; margin: .5rem 0 1rem; }
section { border-top: 1px solid #e5e7eb; margin-top: 2rem; padding-top: 1.5rem; }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: #f3f4f6;
  padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere; }
.note { font-size: .875rem; color: #4b5563; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: .75rem;
  margin-top: 1.25rem; }
.tiles div { background: #f3f4f6; border-radius: 8px; padding: .75rem 1rem; font-size: .875rem; }
.tiles div:first-child { background: #dbeafe; }
.one { white-space: nowrap; }
.tiles b { display: block; white-space: nowrap; font-size: 1.75rem; line-height: 1.3; }
.plot img { display: block; width: 100%; height: auto; margin: .5rem 0 1rem; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-size: .9375rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem 1.25rem .4rem 0;
  border-bottom: 1px solid #e5e7eb; }
thead th { font-size: .8125rem; font-weight: 600; color: #4b5563; vertical-align: bottom; }
tbody th { font-weight: 500; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
.sheet { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fill, minmax(112px, 1fr)); }
.sheet.wrong { grid-template-columns: repeat(auto-fill, minmax(232px, 1fr)); }
.card { border: 1px solid #e5e7eb; border-radius: 8px; padding: .6rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
figure { margin: 0; text-align: center; min-width: 0; }
figure > img { border-radius: 4px; max-width: 100%; height: auto; }
figcaption { font-size: .8125rem; line-height: 1.3; }
figcaption i { display: block; font-style: normal; color: #4b5563; margin-top: .25rem; }
figcaption span { display: flex; align-items: center; justify-content: center; gap: .25rem; }
figcaption b { font-weight: 600; white-space: nowrap; }
figcaption small { display: block; color: #4b5563; font-size: .75rem; overflow-wrap: break-word;
  hyphens: auto; }
@media (max-width: 640px) {
  main { padding-top: 1.25rem; }
  h1 { font-size: 1.6rem; }
  .tiles { grid-template-columns: 1fr 1fr; }
  table { font-size: .8125rem; }
  th, td { padding-right: .6rem; }
  .tiles b { font-size: 1.5rem; }
  tbody th { white-space: normal; }
}
"""
