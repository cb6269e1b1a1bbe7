/**
 * A service on loopback for snippets and for imports by URL: answers with the files of this project below
 * one path, and with "done" to all else.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const ROOT = new URL("../../", import.meta.url);
/** The path of the files. */
export const SOURCES = "/holdfast/";

/** The service. */
export interface SourceService extends AsyncDisposable {
  readonly origin: string;
}

/** Starts the service. */
export async function startSourceService(): Promise<SourceService> {
  const service = createServer(({ url = "" }, response) => {
    if (url.startsWith(SOURCES)) void sendFile(url.slice(SOURCES.length), response);
    else response.end("done");
  });
  await new Promise<void>((resolve) => void service.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      service.closeAllConnections();
      await new Promise<void>((resolve) => void service.close(() => resolve()));
    },
  };
}

/** Sends a file as a repository does: as plain text, whatever it is. */
async function sendFile(path: string, response: ServerResponse): Promise<void> {
  try {
    const content = await readFile(new URL(path, ROOT));
    response.setHeader("content-type", "text/plain; charset=utf-8").end(content);
  } catch {
    response.writeHead(404).end();
  }
}
