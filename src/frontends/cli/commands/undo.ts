import { plainCommand } from '../act.ts';

export const undo = plainCommand('undo', 'Open the step that was closed last', 'undo');
