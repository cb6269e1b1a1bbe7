/**
 * Opens a page in a real browser.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { runCommand } from "../servers/command.ts";
import { makeTempDirectory } from "./temporary_files.ts";

const BOUND_MS = 120_000;
const PROGRAMS = ["chromium", "chromium-browser", "google-chrome"];

/** What the browser has drawn. */
export interface Screenshot {
  readonly bytes: number;
  readonly hash: string;
  /** What it says of the page: broken policies, failed requests. */
  readonly complaints: readonly string[];
}

/** Draws a page as somebody sees it who prefers light or dark. Rejects if there is no browser. */
export async function screenshot(file: string, scheme: "light" | "dark"): Promise<Screenshot> {
  const dir = await makeTempDirectory();
  try {
    const picture = `${dir}/page.png`;
    const args = [
      ...["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"],
      ...["--enable-logging=stderr", `--user-data-dir=${dir}/profile`],
      `--blink-settings=preferredColorScheme=${scheme === "dark" ? 0 : 1}`,
      ...["--window-size=1400,1200", `--screenshot=${picture}`, `file://${file}`],
    ];
    const { success, output } = await runCommand([await browser(), ...args], BOUND_MS);
    if (!success) throw new Error(`The browser has failed: ${output}`);
    const png = await readFile(picture);
    const hash = createHash("sha256").update(png).digest("hex");
    const complaints = output.split("\n").filter((line) => /CONSOLE|Refused to/.test(line));
    return { bytes: png.length, hash, complaints };
  } finally {
    await rm(dir, { recursive: true });
  }
}

async function browser(): Promise<string> {
  for (const program of PROGRAMS) {
    const { success } = await runCommand([program, "--version"], BOUND_MS)
      .catch(() => ({ success: false }));
    if (success) return program;
  }
  throw new Error(`No browser is installed: install one of ${PROGRAMS.join(", ")}`);
}
