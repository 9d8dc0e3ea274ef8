#!/usr/bin/env bash
# Started by Spark on Kubernetes as `driver ...` or `executor`, with settings in the environment; any
# other command is run unchanged. Based on kubernetes/dockerfiles/spark/entrypoint.sh of Apache Spark.
set -euo pipefail

# OpenShift runs images as users without a name, which Hadoop does not support.
if ! getent passwd "$(id -u)" >/dev/null && [ -w /etc/passwd ]; then
    echo "$(id -u):x:$(id -u):0:anonymous:${SPARK_HOME}:/bin/false" >>/etc/passwd
fi

java_options=()
while IFS='=' read -r -d '' name value; do
    [[ $name == SPARK_JAVA_OPT_* ]] && java_options+=("$value")
done < <(env -0 | sort -z -t_ -k4 -n)
classpath="${SPARK_CLASSPATH:-}:${SPARK_HOME}/jars/*"
[ -n "${SPARK_CONF_DIR:-}" ] && classpath="${SPARK_CONF_DIR}:${classpath}"
[ -n "${HADOOP_CONF_DIR:-}" ] && classpath="${HADOOP_CONF_DIR}:${classpath}"

case "${1:-}" in
    driver)
        shift
        command=("${SPARK_HOME}/bin/spark-submit"
            --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS}"
            --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=${SPARK_DRIVER_BIND_ADDRESS}"
            --deploy-mode client "$@")
        ;;
    executor)
        command=(java "${java_options[@]}" -Xms"${SPARK_EXECUTOR_MEMORY}" -Xmx"${SPARK_EXECUTOR_MEMORY}"
            -cp "${classpath}:${SPARK_DIST_CLASSPATH:-}"
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend
            --driver-url "${SPARK_DRIVER_URL}" --executor-id "${SPARK_EXECUTOR_ID}"
            --cores "${SPARK_EXECUTOR_CORES}" --app-id "${SPARK_APPLICATION_ID}"
            --hostname "${SPARK_EXECUTOR_POD_IP}"
            --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}"
            --podName "${SPARK_EXECUTOR_POD_NAME}")
        ;;
    *)
        command=("$@")
        ;;
esac
exec tini -s -- "${command[@]}"
