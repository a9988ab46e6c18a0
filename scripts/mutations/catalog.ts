/** Files in which every `if` that throws or returns is a refusal: permissions, addresses, paths, who gives orders. */
export const GUARDED = [
  'src/engine/gate.ts',
  'src/engine/offered-tools.ts',
  'src/tools/toolbox.ts',
  'src/tools/permit/ruling.ts',
  'src/tools/permit/rules.ts',
  'src/tools/permit/command.ts',
  'src/tools/permit/path.ts',
  'src/tools/permit/address.ts',
  'src/tools/paths.ts',
  'src/tools/open-file.ts',
  'src/tools/web/destination.ts',
  'src/tools/web/outbound.ts',
  'src/tools/web/check-url.ts',
  'src/core/senders.ts',
];

/** A sync that is found by its form, but whose loss loses nothing, and why. */
export const REDUNDANT: Array<{ file: string; code: string; why: string }> = [];

/** A protection that no form tells: `code` stands exactly once in the file. */
export type Patch = { file: string; code: string; replacement: string };

export const patches: Patch[] = [];

/** Which tests are those of a file's own room, likeliest first: each list is run where the one before noticed nothing. */
const TESTS: Array<[place: string, lists: string[][]]> = [
  ['src/store/', [['tests/store'], ['tests/power']]],
  ['src/engine/gate', [['tests/engine/gate', 'tests/engine/approvals']]],
  ['src/engine/offered-tools', [['tests/engine/gate', 'tests/engine/notes']]],
  ['src/engine/', [['tests/engine/durability'], ['tests/engine'], ['tests/modes']]],
  ['src/core/', [['tests/core'], ['tests/engine'], ['tests/modes']]],
  ['src/daemon/', [['tests/daemon']]],
  ['src/client/', [['tests/client'], ['tests/cli']]],
  ['src/tools/web/', [['tests/tools/web-'], ['tests/tools/check']]],
  ['src/tools/browser/', [['tests/tools/browser']]],
  ['src/tools/toolbox', [['tests/tools/toolbox']]],
  ['src/tools/permit/', [['tests/tools/permissions', 'tests/tools/toolbox']]],
  ['src/tools/jobs/', [['tests/tools/jobs']]],
  ['src/tools/mcp/', [['tests/tools/mcp']]],
  ['src/tools/sandbox', [['tests/tools/sandbox']]],
  ['src/tools/super', [['tests/tools/supervisor'], ['tests/tools/shell', 'tests/tools/nursery']]],
  ['src/tools/nursery', [['tests/tools/nursery'], ['tests/tools/shell']]],
  [
    'src/tools/',
    [
      ['tests/tools/paths', 'tests/tools/files'],
      ['tests/tools/search', 'tests/tools/toolbox', 'tests/tools/check'],
    ],
  ],
  ['src/', [['tests/flow']]],
];

export function testsFor(file: string): string[][] {
  return TESTS.find(([place]) => file.startsWith(place))?.[1] ?? [['tests']];
}
