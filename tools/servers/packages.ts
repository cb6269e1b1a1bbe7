/**
 * Reads the records of Debian packages, and selects those that a program needs to run. Pure.
 *
 * @module
 */

/** A package, as its record in an index describes it. */
export interface Package {
  readonly name: string;
  readonly version: string;
  /** The name of the source package that it was built from. */
  readonly source: string;
  /** Such as `libs` or `database`. */
  readonly section: string;
  /** The size of the package file in bytes. */
  readonly size: number;
  /** The names of the packages that it depends on; of alternatives, the first. */
  readonly dependencies: readonly string[];
}

/** Looks up packages by name. Leaves out those that do not exist. */
export type PackageIndex = (names: readonly string[]) => Promise<readonly Package[]>;

/** Reads the records that `apt-cache show` prints: paragraphs of `Field: value`. */
export function readPackages(text: string): Package[] {
  return text.split(/\n{2,}/).filter((paragraph) => /^Package:/m.test(paragraph)).map(readPackage);
}

function readPackage(paragraph: string): Package {
  const field = (name: string) => new RegExp(`^${name}: *(.*)$`, "m").exec(paragraph)?.[1] ?? "";
  const name = field("Package");
  return {
    name,
    version: field("Version"),
    source: firstName(field("Source")) || name,
    section: field("Section"),
    size: Number(field("Size")),
    dependencies: `${field("Pre-Depends")},${field("Depends")}`
      .split(",").map(firstName).filter((each) => each !== ""),
  };
}

/** The first name in a text like `libc6 (>= 2.38) | libc6.1` or `libc6:any`. */
function firstName(text: string): string {
  return /^\s*([a-z0-9][a-z0-9+.-]*)/.exec(text)?.[1] ?? "";
}

/**
 * The packages that a program needs to run beside the system: its own, those of the same source, and
 * the libraries of all of them. Leaves out what only an installation needs, such as users and services.
 *
 * @throws {Error} If the index does not have the program.
 */
export async function packagesOf(program: string, index: PackageIndex): Promise<Package[]> {
  const [first] = await index([program]);
  if (first === undefined) throw new Error(`Cannot find the package "${program}"`);
  const found = new Map([[program, first]]);
  const asked = new Set([program]);
  let latest = [first];
  while (latest.length > 0) {
    const names = new Set(latest.flatMap(({ dependencies }) => dependencies));
    const unseen = [...names].filter((name) => !asked.has(name));
    unseen.forEach((name) => asked.add(name));
    const packages = unseen.length > 0 ? await index(unseen) : [];
    latest = packages.filter((each) => each.section === "libs" || each.source === first.source);
    latest.forEach((each) => found.set(each.name, each));
  }
  return [...found.values()];
}
