/**
 * What this process reports while a test runs: its warnings, and rejections that nobody handles.
 *
 * @module
 */
import process from "node:process";

/** Collects until it is disposed. */
export interface Reports extends Disposable {
  readonly messages: readonly string[];
}

/** Collects the warnings of this process. */
export function collectWarnings(): Reports {
  const messages: string[] = [];
  const note = ({ message }: Error) => void messages.push(message);
  process.on("warning", note);
  return { messages, [Symbol.dispose]: () => void process.off("warning", note) };
}

/** Collects the rejections that nobody handles, which would end this process. */
export function collectRejections(): Reports {
  const messages: string[] = [];
  const note = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    messages.push(String(event.reason));
  };
  globalThis.addEventListener("unhandledrejection", note);
  const dispose = () => globalThis.removeEventListener("unhandledrejection", note);
  return { messages, [Symbol.dispose]: dispose };
}
