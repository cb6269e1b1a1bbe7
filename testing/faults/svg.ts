/**
 * Draws elements of SVG.
 *
 * @module
 */

/** Escapes text for HTML and SVG. */
export function escape(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** A bar with a tooltip. */
export interface Bar {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly className: string;
  readonly title: string;
}

/** Draws a bar, at least wide enough to be seen. */
export function bar({ x, y, width, height, className, title }: Bar): string {
  const box = `x="${round(x)}" y="${round(y)}" width="${round(Math.max(width, 1.5))}" ` +
    `height="${round(height)}"`;
  return `<rect ${box} class="${className}"><title>${escape(title)}</title></rect>`;
}

/** Draws a vertical line with a tooltip. */
export function line(x: number, height: number, className: string, title: string): string {
  const ends = `x1="${round(x)}" x2="${round(x)}" y1="0" y2="${round(height)}"`;
  return `<line ${ends} class="${className}"><title>${escape(title)}</title></line>`;
}

/** Writes text; its baseline begins at the point. */
export function label(x: number, y: number, text: string, className = ""): string {
  return `<text x="${round(x)}" y="${round(y)}" class="${className}">${escape(text)}</text>`;
}

/** Combines elements into a picture. */
export function svg(width: number, height: number, pieces: readonly string[]): string {
  return `<svg viewBox="0 0 ${width} ${round(height)}" role="img">${pieces.join("\n")}</svg>`;
}

/** The time axis of a picture. */
export interface Axis {
  readonly fromUs: number;
  readonly toUs: number;
  /** The x coordinate of a time; times outside are at the edge. */
  x(us: number): number;
  /** Whether the span between two times is visible. */
  shows(startUs: number, endUs: number): boolean;
  /** Marks of the axis down to `height`, labelled with the seconds since `zeroUs`. */
  marks(height: number, zeroUs: number): string[];
}

/** Makes an axis between two edges. */
export function axisOf(fromUs: number, toUs: number, left: number, right: number): Axis {
  const scale = (right - left) / Math.max(1, toUs - fromUs);
  const x = (us: number) => left + (Math.min(Math.max(us, fromUs), toUs) - fromUs) * scale;
  return {
    ...{ fromUs, toUs, x },
    shows: (startUs, endUs) => startUs <= toUs && endUs >= fromUs,
    marks(height, zeroUs) {
      const stepUs = stepOf((toUs - fromUs) / 8);
      const marks: string[] = [];
      const firstUs = Math.ceil((fromUs - zeroUs) / stepUs) * stepUs + zeroUs;
      for (let us = firstUs; us <= toUs; us += stepUs) {
        const text = `${Number(((us - zeroUs) / 1e6).toFixed(6))} s`;
        marks.push(line(x(us), height, "mark", text), label(x(us) + 3, height + 12, text, "time"));
      }
      return marks;
    },
  };
}

/** The next greater 1, 2 or 5 times a power of ten. */
function stepOf(us: number): number {
  const zeros = 10 ** Math.floor(Math.log10(Math.max(us, 1)));
  return [1, 2, 5, 10].map((digit) => digit * zeros).find((step) => step >= us)!;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
