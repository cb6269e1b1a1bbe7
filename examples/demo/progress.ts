/**
 * Shows the progress of a run: a bar on a terminal, otherwise a line every second.
 *
 * @module
 */
const BAR_COLUMNS = 40;
const REDRAW_MS = 50;
const LINE_EVERY_MS = 1_000;

/** Where progress is shown. */
export interface Screen {
  readonly isTerminal: boolean;
  write(text: string): void;
}

/** Shows one run. */
export interface Progress extends Disposable {
  /** One more round is done. */
  step(): void;
  /** Explains why there is no step at the moment. */
  note(text: string): void;
}

/** Starts to show a run of `total` rounds. Disposal removes the bar. */
export function showProgress(title: string, total: number, screen: Screen): Progress {
  let done = 0;
  let remark = "";
  let shownAtMs = performance.now();
  const show = () => {
    shownAtMs = performance.now();
    const count = `${done} of ${total} rounds${remark}`;
    if (!screen.isTerminal) return screen.write(`${title}: ${count}\n`);
    const full = Math.round(BAR_COLUMNS * done / total);
    const bar = "█".repeat(full) + "░".repeat(BAR_COLUMNS - full);
    screen.write(`\r${title} ${bar} ${count}\x1b[K`);
  };
  const everyMs = screen.isTerminal ? REDRAW_MS : LINE_EVERY_MS;
  if (screen.isTerminal) show();
  return {
    step() {
      done++;
      remark = "";
      if (performance.now() - shownAtMs >= everyMs) show();
    },
    note(text) {
      remark = `, ${text}`;
      show();
    },
    [Symbol.dispose]() {
      if (screen.isTerminal) screen.write("\r\x1b[K");
    },
  };
}
