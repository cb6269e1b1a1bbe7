/** By selector: a property, its light colour, and its dark one. */
const COLOURS = {
  ".paper": ["fill", "#ffffff", "#0d1117"],
  "text,text.heading": ["fill", "#3a4356", "#c9d1d9"],
  "text.time": ["fill", "#6b7486", "#8b949e"],
  "text.violation": ["fill", "#c4182b", "#ff7b72"],
  ".mark": ["stroke", "#e3e7ee", "#262c36"],
  ".chart": ["fill", "#7d9bd1", "#4a6fb0"],
  ".fault": ["fill", "#f4b860", "#9a6a18"],
  ".destructive": ["fill", "#d2603a", "#d2603a"],
  ".lost": ["fill", "#111111", "#ffffff"],
  ".late": ["fill", "#c8861a", "#e3b341"],
  ".refused,.killed": ["fill", "#c4182b", "#f85149"],
  "line.violation": ["stroke", "#e0102a", "#f85149"],
  "line.excused": ["stroke", "#a05bd0", "#bc8cff"],
  "line.handoff": ["stroke", "#3a4356", "#adbac7"],
  ".name0": ["fill", "#2f6fde", "#4493f8"],
  ".name1": ["fill", "#1f9d72", "#3fb68b"],
  ".name2": ["fill", "#9a5fc9", "#b98ae6"],
  ".name3": ["fill", "#c8861a", "#d9a441"],
  ".name4": ["fill", "#3aa3b8", "#56c2d6"],
  ".name5": ["fill", "#b8517f", "#e07ba8"],
};

/** The number of colours for names of locks. */
export const NAME_COLOURS = 6;

/** The style of a picture, in a file of its own or in a page. */
export const PICTURE_STYLE = `text{font:11px ui-monospace,Menlo,Consolas,monospace}
text.heading{font:600 15px system-ui,sans-serif}
.fault{opacity:.55}.wait{opacity:.4}line.violation{stroke-width:1.6}
line.handoff{stroke-width:.8;opacity:.6}
${rules(1)}
@media (prefers-color-scheme:dark){${rules(2)}}`;

/** The rules of the light colours, which are at 1, or of the dark ones, at 2. */
function rules(scheme: 1 | 2): string {
  return Object.entries(COLOURS)
    .map(([selector, colours]) => `${selector}{${colours[0]}:${colours[scheme]}}`).join("");
}
