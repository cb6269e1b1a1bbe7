/**
 * A shell in a real terminal, by `script` of util-linux.
 *
 * @module
 */
import { spawnProcess } from "../../testing/runtime/processes.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const PROMPT = "$ ";
// deno-lint-ignore no-control-regex -- what a terminal is told besides the text
const CONTROLS = /\x1b\[[\d;?]*[A-Za-z]|\r/g;

/** A terminal. Disposal ends its shell. */
export interface Terminal extends AsyncDisposable {
  /** Types a command, and waits for this text of its output. */
  begin(command: string, text: string): Promise<void>;
  /** Types an answer. */
  type(answer: string): Promise<void>;
  /** Waits for the prompt. Resolves with all that the screen shows since the last call, without the prompt. */
  end(): Promise<string>;
}

/** Opens a terminal of the usual size. */
export async function openTerminal(
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<Terminal> {
  const shell = spawnProcess(["script", "-qfc", "sh", "/dev/null"], {
    cwd,
    env: { ...env, ENV: "", TERM: "dumb", NO_COLOR: "1" },
    hasInput: true,
    stdout: "pipe",
  });
  let output = "";
  let from = 0;
  shell.stdout!.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
  const screen = () => output.slice(from).replaceAll(CONTROLS, "");
  const isAtPrompt = () => `\n${screen()}`.endsWith(`\n${PROMPT}`);
  const end = async () => {
    await waitUntil("the prompt comes", isAtPrompt);
    const text = screen().slice(0, -PROMPT.length);
    from = output.length;
    return text;
  };
  const type = (text: string) => shell.write(`${text}\n`);
  await waitUntil("the shell runs", () => /[#$] $/.test(output));
  await type(`PS1='${PROMPT}'; stty rows 24 columns 80`);
  await end();
  return {
    end,
    type,
    async begin(command, text) {
      await type(command);
      const typed = () => screen().slice(screen().indexOf(command) + command.length);
      await waitUntil(`the screen shows ${text}`, () => typed().includes(text));
    },
    async [Symbol.asyncDispose]() {
      await shell.endInput();
      await shell.ended;
    },
  };
}
