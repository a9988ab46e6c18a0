import { createHash } from 'node:crypto';
import { type Atom, type Disk, type Fate, SECTOR, type Tree, treeAt, walk } from './disk.ts';

/** Up to this many undecided changes all combinations are tried; beyond that, samples. */
const EXHAUSTIVE = 8;
/** Which disks are tried at a point: if there are too many, at most `most` seeded samples. */
export type Choice = { seed: number; samples: number; most: number; how: Writes };
/**
 * What may happen to an unsynced write. `whole`: it is there or not; `torn`: or a part of it; in both cases, later
 * writes to the same file need it. `any`: or some of its sectors, and later writes without earlier ones, which then
 * read as zeros.
 */
export type Writes = 'whole' | 'torn' | 'any';

/** A disk that a power cut may leave. `how`: what was undone, readable; `key`: the same for equal disks. */
export type State = { cut: number; tree: Tree; how: string; key: string };

/** Files that are the same in all runs and do not matter; they are always kept, so that samples go to others. */
const SETTLED = /^\.agentd\/(?:schemas|\.tmp-)|\/live$/;

/**
 * The distinct disks that a cut before call `cut` may leave: everything lost, everything kept, then all combinations of
 * at most 8 undecided changes, or `samples` seeded samples, of which half lose a few changes and half keep a few.
 */
export function* statesAt(disk: Disk, cut: number, choice: Choice): Generator<State> {
  const { seed } = choice;
  const chance = chanceOf(seed * 1_000_003 + cut);
  const places = [...disk.atoms.keys()].filter((place) => isOpen(disk, place, cut));
  const seen = new Set<string>();
  for (const some of ways(disk, cut, places, chance, choice)) {
    const fates = choice.how === 'any' ? some : inOrder(disk, some);
    const tree = treeAt(disk, cut, (_, place) => fates.get(place) ?? 'kept');
    const key = keyOf(tree);
    if (seen.has(key)) continue;
    seen.add(key);
    yield { cut, tree, how: formatFates(disk, fates), key };
  }
}

/** How many changes are undecided at a cut. */
export const openAt = (disk: Disk, cut: number): number =>
  [...disk.atoms.keys()].filter((place) => isOpen(disk, place, cut)).length;

function isOpen({ atoms, paths }: Disk, place: number, cut: number): boolean {
  const atom = atoms[place];
  if (!atom || atom.born >= cut || atom.sure < cut) return false;
  const node = atom.is === 'name' ? (atom.node ?? atom.folder) : atom.node;
  return !SETTLED.test(paths.get(node) ?? '');
}

type Fates = Map<number, Fate>;

function* ways(
  disk: Disk,
  cut: number,
  places: number[],
  chance: Chance,
  { samples, most, how }: Choice,
): Generator<Fates> {
  const worst = (place: number): Fate => (arrived(disk.atoms[place], cut) ? 'both' : 'lost');
  yield new Map();
  yield new Map(places.map((place) => [place, worst(place)]));
  if (places.length <= EXHAUSTIVE) {
    let fates: Fates[] = [new Map()];
    for (const place of places) {
      const all = fatesOf(disk.atoms[place], cut, chance, how);
      fates = fates.flatMap((one) => all.map((fate) => new Map([...one, [place, fate]])));
    }
    const share = most / fates.length;
    for (const one of fates) if (share >= 1 || chance() < share) yield one;
    return;
  }
  for (let n = 0; n < samples; n++) {
    const share = n % 2 === 0 ? 0.15 : 0.85;
    yield new Map(
      places.map((place) => {
        const hurt = fatesOf(disk.atoms[place], cut, chance, how).filter((fate) => fate !== 'kept');
        return [place, chance() < share ? (hurt[Math.floor(chance() * hurt.length)] ?? 'lost') : 'kept'];
      }),
    );
  }
}

const arrived = (atom: Atom | undefined, cut: number) => atom?.is === 'move' && atom.arrived < cut;

/** The possible fates of one undecided change. */
function fatesOf(atom: Atom | undefined, cut: number, chance: Chance, how: Writes): Fate[] {
  if (arrived(atom, cut)) return ['kept', 'both'];
  if (atom?.is !== 'bytes' || how === 'whole') return ['kept', 'lost'];
  const torn = Math.floor(chance() * atom.bytes.length);
  if (how === 'torn') return ['kept', 'lost', torn];
  const first = Math.floor(atom.at / SECTOR);
  const last = Math.floor((atom.at + atom.bytes.length - 1) / SECTOR);
  const sectors = new Set(Array.from({ length: last - first + 1 }, (_, n) => first + n).filter(() => chance() < 0.5));
  return ['kept', 'lost', torn, { sectors }];
}

/** If a write to a file was lost, all later writes to it are lost too. */
function inOrder({ atoms }: Disk, fates: Fates): Fates {
  const cut = new Set<number>();
  return new Map(
    [...fates].map(([place, fate]): [number, Fate] => {
      const atom = atoms[place];
      if (atom?.is !== 'bytes' && atom?.is !== 'size') return [place, fate];
      const now = cut.has(atom.node) ? 'lost' : fate;
      if (now !== 'kept') cut.add(atom.node);
      return [place, now];
    }),
  );
}

function formatFates({ atoms, calls }: Disk, fates: Fates): string {
  const words = [...fates].flatMap(([place, fate]) => {
    const atom = atoms[place];
    const call = calls[atom?.born ?? 0];
    if (fate === 'kept' || !atom || !call) return [];
    const what = 'path' in call ? call.path : call.to;
    const short = what
      .split('/')
      .slice(-2)
      .join('/')
      .replace(/[0-9a-f]{12,}/g, '…');
    const how = typeof fate === 'object' ? `sectors ${[...fate.sectors].join(' ') || 'none'}` : String(fate);
    return [`${call.is} ${short}${atom.is === 'bytes' ? `@${atom.at}` : ''}: ${how}`];
  });
  return words.join(', ') || 'everything kept';
}

function keyOf(tree: Tree): string {
  const hash = createHash('sha256');
  for (const { path, node } of walk(tree)) {
    if (SETTLED.test(path)) continue;
    hash.update(`${path}\0${node}\0`);
    hash.update(tree.bytes.get(node) ?? 'folder');
  }
  return hash.digest('hex');
}

type Chance = () => number;

/** Seeded random numbers in [0, 1) (mulberry32). */
function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
