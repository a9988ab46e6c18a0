/** The models room: an OpenAI-compatible endpoint, or a built-in model, behind the engine's `Model` port. */
export { chooseModel } from './choose.ts';
