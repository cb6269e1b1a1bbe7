/**
 * Uses apt with another Debian release than the installed one: in a folder of its own, so that the
 * system's lists and packages stay as they are. apt checks the signature and all checksums.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { type CommandResult, runCommand } from "../../testing/servers/command.ts";
import { type Package, type PackageIndex, readPackages } from "./packages.ts";

const SHORT_BOUND_MS = 60_000;
const DOWNLOAD_BOUND_MS = 600_000;
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** How apt gets packages of a release. */
export interface AptOptions {
  /** The folder for apt's files; an absolute path. */
  readonly folder: string;
  /** The address of the mirror. */
  readonly mirror: string;
  /** The name of the release, such as `trixie`. */
  readonly release: string;
  /** Whether to use packages although nothing proves that they come from Debian. */
  readonly isUnsigned: boolean;
}

/** The packages of one release. */
export interface Apt {
  readonly index: PackageIndex;
  /** Downloads packages; resolves with the paths of their files. */
  download(packages: readonly Package[]): Promise<string[]>;
}

/**
 * The mirrors of all packages that apt's configuration names, those of Debian itself first.
 *
 * @throws {Error} If this system has no apt.
 */
export async function configuredMirrors(): Promise<string[]> {
  const format = ["--no-release-info", "--format", "$(REPO_URI) $(COMPONENT)"];
  const command = ["apt-get", "indextargets", ...format, "Created-By: Packages"];
  const { success, output } = await runCommand(command, SHORT_BOUND_MS);
  if (!success) throw new Error(`Cannot read apt's configuration: ${output.trim()}`);
  return mirrorsIn(output);
}

/** The addresses in lines of `address component` whose component is `main`. */
export function mirrorsIn(lines: string): string[] {
  const mirrors = new Set([...lines.matchAll(/^(\S+) main$/gm)].map(([, mirror = ""]) => mirror));
  const rank = (mirror: string) => /\/debian\/?$/.test(mirror) ? 0 : 1;
  return [...mirrors].sort((a, b) => rank(a) - rank(b));
}

/** How the origin of the packages is verified, in words. */
export function verification(isUnsigned: boolean): string {
  if (isUnsigned) return "NOT verified, because of --unsigned";
  return `verified with ${existsSync(KEYRING) ? KEYRING : "the keys that apt trusts"}`;
}

/**
 * Downloads the index of a release.
 *
 * @throws {Error} If the mirror does not have the release, or its signature cannot be verified.
 */
export async function openApt(options: AptOptions): Promise<Apt> {
  const { folder } = options;
  await mkdir(`${folder}/lists/partial`, { recursive: true });
  await mkdir(`${folder}/cache/archives/partial`, { recursive: true });
  await writeFile(`${folder}/status`, "");
  await writeFile(`${folder}/release.sources`, sourcesText(options));
  await writeFile(`${folder}/apt.conf`, configurationText(folder, await ownConfiguration()));
  const env = { APT_CONFIG: `${folder}/apt.conf` };
  await succeed(runCommand(["apt-get", "update", "--error-on=any"], DOWNLOAD_BOUND_MS, { env }));
  return {
    async index(names) {
      // The command fails if one of the packages does not exist, but prints the others.
      const command = ["apt-cache", "show", "--no-all-versions", ...names];
      return readPackages((await runCommand(command, SHORT_BOUND_MS, { env })).output);
    },
    download: (packages) => download(packages, `${folder}/packages`, env),
  };
}

async function download(
  packages: readonly Package[],
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<string[]> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  const names = packages.map(({ name, version }) => `${name}=${version}`);
  const command = ["apt-get", "download", ...names];
  await succeed(runCommand(command, DOWNLOAD_BOUND_MS, { env, cwd: folder }));
  return (await readdir(folder)).map((file) => `${folder}/${file}`);
}

function sourcesText({ mirror, release, isUnsigned }: AptOptions): string {
  const source = `Types: deb\nURIs: ${mirror}\nSuites: ${release}\nComponents: main\n`;
  if (isUnsigned) return `${source}Trusted: yes\n`;
  return existsSync(KEYRING) ? `${source}Signed-By: ${KEYRING}\n` : source;
}

/** The system's settings for downloads, such as proxies, but not which files apt downloads. */
async function ownConfiguration(): Promise<string> {
  const { output } = await runCommand(["apt-config", "dump"], SHORT_BOUND_MS);
  const lines = output.split("\n").filter((line) => /^Acquire::(?!IndexTargets)/.test(line));
  return lines.join("\n");
}

/** The files of other configuration are not read: their hooks would run on the system. */
function configurationText(folder: string, settings: string): string {
  return `${settings}
Acquire::Languages "none";
Acquire::GzipIndexes "false";
APT::Sandbox::User "root";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "${folder}/release.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::State "${folder}";
Dir::State::status "${folder}/status";
Dir::Cache "${folder}/cache";
`;
}

/** @throws {Error} With the errors that apt printed, if the command failed. */
async function succeed(running: Promise<CommandResult>): Promise<void> {
  const { success, output } = await running;
  if (success) return;
  const errors = output.split("\n").filter((line) => /^(E|W|Err):/.test(line));
  throw new Error((errors.length > 0 ? errors : [output.slice(-1_000)]).join("\n"));
}
