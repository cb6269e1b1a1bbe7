/**
 * Loads test files one after the other, for `registrations.ts`.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- the output is read by another process

/** The mark of a line with the name of a file. The lines of its tests follow. */
export const FILE_MARK = "file: ";

if (import.meta.main) {
  for (const file of Deno.args) {
    console.log(FILE_MARK + file);
    await import(new URL(`../../${file}`, import.meta.url).href);
  }
}
