/** The outcome of one check of `holdfast doctor`. */
export interface Finding {
  /** What was looked at. */
  readonly subject: string;
  readonly state: "good" | "bad" | "not checked";
  /** What it is, for "good"; what it risks, for "bad"; why not, for "not checked". */
  readonly text: string;
  /** The command or the setting that cures it. */
  readonly fix?: string;
}

export function good(subject: string, text: string): Finding {
  return { subject, state: "good", text };
}

/** @param fix Left out if the text has it. */
export function bad(subject: string, text: string, fix?: string): Finding {
  return { subject, state: "bad", text, ...fix === undefined ? {} : { fix } };
}

/** A check that cannot look is never good. */
export function notChecked(subject: string, error: unknown): Finding {
  const text = error instanceof Error ? error.message : String(error);
  return { subject, state: "not checked", text: text.replace(/\s+/g, " ") };
}
