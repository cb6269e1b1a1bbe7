import { createHash } from "node:crypto";
import { PICTURE_STYLE } from "./style.ts";
import { escape } from "./svg.ts";

const STYLE = `:root{color-scheme:light dark;font:14px/1.45 system-ui,sans-serif}
body{max-width:1560px;margin:24px auto;padding:0 24px;background:#fff;color:#1d2433}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 6px}
pre,table{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace}
pre{background:#f5f6f9;padding:12px;overflow:auto}
svg{width:100%;height:auto;border:1px solid #dfe3ea;border-radius:4px}
table{border-collapse:collapse}caption{text-align:left;padding:4px 0}
th,td{text-align:left;vertical-align:top;padding:2px 14px 2px 0;border-bottom:1px solid #dfe3ea;
overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap}
.good{color:#1a7f4b}.bad{color:#c4182b}a{color:#1c5bc0}
a:focus-visible,a:target rect{outline:2px solid #e0102a}tr:target{background:#fff3c4}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#c9d1d9}
pre{background:#161b22}svg,th,td{border-color:#30363d}.good{color:#3fb950}.bad{color:#ff7b72}
a{color:#6cb0ff}tr:target{background:#4b3d10}}
${PICTURE_STYLE}`;

/** Makes a page of parts, which are HTML; the title is text. It loads nothing, and its policy forbids that, too. */
export function page(title: string, parts: readonly string[]): string {
  const hash = createHash("sha256").update(STYLE).digest("base64");
  const policy =
    `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width"><title>${escape(title)}</title>
<style>${STYLE}</style></head>
<body>
${parts.join("\n")}
</body></html>
`;
}
