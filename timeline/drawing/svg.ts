/** Escapes text for HTML and SVG. Control characters are not allowed there. */
export function escape(text: string): string {
  // deno-lint-ignore no-control-regex -- they are what it replaces
  return text.toWellFormed().replace(/[\0-\x08\x0b-\x1f\x7f\ufffe\uffff]/g, "\ufffd")
    .replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** Draws a bar with a tooltip, at least wide enough to be seen. */
export function bar(
  { x, y, width, height, className, title }: {
    readonly x: number;
    readonly y: number;
    readonly width: number;
    readonly height: number;
    readonly className: string;
    readonly title: string;
  },
): string {
  const box = `x="${round(x)}" y="${round(y)}" width="${round(Math.max(width, 1.5))}" ` +
    `height="${round(height)}"`;
  return `<rect ${box} class="${className}"><title>${escape(title)}</title></rect>`;
}

/** Draws a line between two points, with a tooltip. */
export function line(
  { x1, y1, x2, y2 }: Readonly<Record<"x1" | "y1" | "x2" | "y2", number>>,
  className: string,
  title: string,
): string {
  const ends = `x1="${round(x1)}" x2="${round(x2)}" y1="${round(y1)}" y2="${round(y2)}"`;
  return `<line ${ends} class="${className}"><title>${escape(title)}</title></line>`;
}

/** Writes text; its baseline begins at the point. */
export function label(x: number, y: number, text: string, className = ""): string {
  return `<text x="${round(x)}" y="${round(y)}" class="${className}">${escape(text)}</text>`;
}

/** Makes the time axis of a picture, between two edges. */
export function axisOf(fromMs: number, toMs: number, left: number, right: number) {
  const scale = (right - left) / Math.max(0.001, toMs - fromMs);
  const x = (ms: number) => left + (Math.min(Math.max(ms, fromMs), toMs) - fromMs) * scale;
  return {
    toMs,
    /** The x coordinate of a time; times outside are at the edge. */
    x,
    /** Whether the span between two times is visible. */
    shows: (startMs: number, endMs: number) => startMs <= toMs && endMs >= fromMs,
    /** Marks of the axis between two heights, labelled with the seconds since `zeroMs`. */
    marks(top: number, bottom: number, zeroMs: number) {
      const stepMs = stepOf(Math.max(toMs - fromMs, 0.001) / Math.max(2, (right - left) / 170));
      const marks: string[] = [];
      const first = Math.ceil((fromMs - zeroMs) / stepMs);
      const last = Math.floor((toMs - zeroMs) / stepMs);
      for (let step = first; step <= last; step++) {
        const text = `${Number((step * stepMs / 1e3).toFixed(6))} s`;
        const at = x(zeroMs + step * stepMs);
        marks.push(line({ x1: at, y1: top, x2: at, y2: bottom }, "mark", text));
        if (at < right - 7 * text.length) marks.push(label(at + 3, bottom + 12, text, "time"));
      }
      return marks;
    },
  };
}

/** The next greater 1, 2 or 5 times a power of ten. */
function stepOf(ms: number): number {
  const zeros = 10 ** Math.floor(Math.log10(ms));
  return [1, 2, 5, 10].map((digit) => digit * zeros).find((step) => step >= ms) ?? 10 * zeros;
}

/** To a tenth of a pixel. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
