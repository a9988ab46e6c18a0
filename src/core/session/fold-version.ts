// Written by `npm run docs`: changes with any file the fold is made of. A snapshot of another version is not believed.
export const FOLD_VERSION = 'adcf5d57b593dcdf';
