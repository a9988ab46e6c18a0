import { extname } from 'node:path';
import { UserError } from '../../protocol/errors.ts';
import { statOf } from '../open-file.ts';
import type { Fence, Place } from '../paths.ts';

const MOST_TRIED = 10_000;

/** A place in a folder of `work/` that no file has yet: `report.pdf`, else `report-2.pdf`. */
export async function freePlace(fence: Fence, folder: string, name: string): Promise<Place> {
  const ending = extname(name);
  const stem = name.slice(0, name.length - ending.length);
  for (let n = 1; n < MOST_TRIED; n++) {
    const place = await fence.toWrite(`${folder}/${n === 1 ? name : `${stem}-${n}${ending}`}`);
    if (statOf(place, fence) === undefined) return place;
  }
  throw new UserError(`\`${folder}\` is full of files called ${name}.`);
}
