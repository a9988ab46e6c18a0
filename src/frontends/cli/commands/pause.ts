import { plainCommand } from '../act.ts';

export const pause = plainCommand('pause', 'Finish the call in flight, then rest', 'pause');
