/**
 * Applications of Next.js, built with the npm package, and their processes. Next takes 350 MB, so only the
 * soak uses it.
 *
 * @module
 */
import { cp, mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { spawnProcess } from "../runtime/processes.ts";
import { freePort } from "../servers/ports.ts";
import { waitUntil } from "../servers/wait.ts";
import { CLIENTS, OUTSIDE } from "./bundlers.ts";
import { COMPILERS, NODE_TYPES } from "./consumers.ts";
import { installPackages } from "./install.ts";
import { linkedProject } from "./project.ts";
import { NODE_22, programOf } from "./runtimes.ts";

const LAYOUT = `export default function Layout({ children }: { children: React.ReactNode }) {
  return <html><body>{children}</body></html>;
}`;
const PROGRAM = "node_modules/next/dist/bin/next";
const ENV = { NEXT_TELEMETRY_DISABLED: "1" };

export const NEXT = "next@16.4.6";
/** The packages of an application, with the types that its build demands. */
export const NEXT_PACKAGES: readonly string[] = [
  ...[NEXT, "react@19.3.1", "react-dom@19.3.1", "@types/react@19.3.0"],
  ...[...Object.values(CLIENTS), ...Object.values(OUTSIDE), COMPILERS[0], NODE_TYPES],
];
/** The bundlers that Next.js can build with. */
export const NEXT_BUNDLERS = ["turbopack", "webpack"] as const;

/** A running process of the application. */
export interface NextProcess extends AsyncDisposable {
  readonly url: string;
}

/** The application, built. */
export interface NextApp extends AsyncDisposable {
  /** Starts a process; all of them share their locks. */
  start(env?: Readonly<Record<string, string>>): Promise<NextProcess>;
}

/**
 * Builds an application, which checks the types of its files, too.
 *
 * @param files Its files, by their paths.
 */
export async function buildNextApp(
  files: Readonly<Record<string, string>>,
  bundler: typeof NEXT_BUNDLERS[number] = "turbopack",
): Promise<NextApp> {
  const packages = await installPackages(NEXT_PACKAGES);
  const project = await linkedProject();
  const { folder } = project;
  // Copies: the bundler follows no links out of the project.
  await cp(packages, `${folder}/node_modules`, { recursive: true, verbatimSymlinks: true });
  await project.write("package.json", JSON.stringify({ private: true, type: "module" }));
  for (const [path, text] of Object.entries({ "app/layout.tsx": LAYOUT, ...files })) {
    await mkdir(dirname(`${folder}/${path}`), { recursive: true });
    await project.write(path, text);
  }
  const node = await programOf(NODE_22);
  const { success, output } = await project.run([node, PROGRAM, "build", `--${bundler}`], ENV);
  if (!success) throw new Error(`next build failed: ${output}`);
  return {
    start: (env = {}) => startApp(node, folder, env),
    [Symbol.asyncDispose]: () => project[Symbol.asyncDispose](),
  };
}

async function startApp(
  node: string,
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<NextProcess> {
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawnProcess([node, PROGRAM, "start", "-p", String(port), "-H", "127.0.0.1"], {
    cwd,
    env: { ...ENV, LOCK_DIR: `${cwd}/locks`, ...env },
  });
  await waitUntil("Next.js listens", async () => {
    try {
      const response = await fetch(url);
      await response.text();
      return true;
    } catch {
      return false;
    }
  });
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.ended;
    },
  };
}
