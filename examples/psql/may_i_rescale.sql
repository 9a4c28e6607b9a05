-- May I set the parallelism of this source to n now? If not, which splits stand in the way?
--   psql ... -v source=s -v target=4 -f examples/psql/may_i_rescale.sql
SELECT tidegate.can_rescale(:'source', :'target') AS safe;

SELECT check_name, decision, job_name, split_id, from_actor, to_actor, verdict, reason, remedy
FROM tidegate.check_rescale(:'source', :'target')
WHERE decision <> 'pass';
